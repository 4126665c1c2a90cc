//! JSON Schemas of everything public, made from the descriptors.
