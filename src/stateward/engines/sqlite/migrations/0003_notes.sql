-- oldest release that may use the schema after this step: 0.1.0
-- What else there is to say of an append, e.g. what the model was given that said it: JSON text on its
-- last entry. NULL: nothing. Only backups read it, and those who ask for it.
ALTER TABLE log ADD COLUMN note TEXT;
