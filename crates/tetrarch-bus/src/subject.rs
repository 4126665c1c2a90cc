//! Subject text: built and parsed here and nowhere else (spec 02).
//! Nothing here knows what a subject means to its receiver.

pub mod pattern;
