"""Drawn programs in which two features meet, judged by a small model of what must hold.

Most defects that were ever found in the state layer stood where two features meet: an effect in a
workflow that is forked, a turn that is stored after its conversation was erased, a pin in an
archive. So a program is drawn for each pair of features: about twenty actions of the two, of the
conversations that all features share, and of time, which passes in hours, days and months. After
each action what is stored is compared with the model of `program.py` and of the features.

The same seed is the same program:

    PYTHONPATH=tests python -m matrix 4711 --trace
"""
