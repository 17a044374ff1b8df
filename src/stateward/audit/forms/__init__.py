"""A report in every form: one page of HTML, text, Markdown, JUnit, JSON; and two compared."""
