//! The `tetrarch` binary.

fn main() {}
