//! Pickers: who is chosen, and who after.
