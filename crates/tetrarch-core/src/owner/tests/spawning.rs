//! x y
