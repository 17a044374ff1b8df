"""The documentation site: pages and generated references, put together, built and checked offline.

PYTHONPATH=tools python -m docs_site [FOLDER]       what `make docs` runs; FOLDER is site/
"""
