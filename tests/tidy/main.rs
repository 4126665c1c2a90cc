//! The repository's rules as tests: one test per rule, each naming every offender as `path:line`.
//! A rule is a pure function of sources, so each is also tried on a bad sample and must find it.
//! Nothing here builds or runs the product, or judges what needs a reader's judgement.

mod arrows;
mod citations;
mod conventions;
mod documents;
mod figures;
mod form;
mod names;
mod offence;
mod purity;
mod repository;
mod secrets;
mod seeds;
mod source;
mod subjects;
mod wording;
