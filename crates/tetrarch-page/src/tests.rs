//! The page as a browser gets it.
