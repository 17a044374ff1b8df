"""Public systems, audited by name: `python -m findings` audits them and writes docs/findings.md.

`systems.py` names them, `memories` makes each a target of the audit, `reproductions` shows every
defect in the vendor's own API, `requirements` pins what is installed, `results.json` is what came.
"""
