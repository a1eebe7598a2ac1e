"""Objects that know their own state, and checks of states."""
