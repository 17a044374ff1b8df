"""Pure functions over what happened: they read a history and name what must not have happened.

None of them knows a store. They run on the history of any system, in any language.
"""
