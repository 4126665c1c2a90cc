//! What the owner decides, from the first start to the last result. Every entry is checked for
//! broken invariants, decided twice, and replayed.

mod affording;
mod archiving;
mod bounds;
mod budgets;
pub(crate) mod changes;
mod circuits;
mod consulting;
mod crystallizing;
mod deadlines;
mod denials;
mod draining;
mod files;
pub(crate) mod fleet;
mod folding;
mod forgetting;
mod goals;
mod holding;
mod judging;
mod overseeing;
mod planning;
mod post;
mod profiles;
mod questions;
mod raising;
mod recovery;
mod replacing;
mod schedules;
mod sessions;
mod silence;
mod spawning;
mod stopping;
mod stories;
mod troubles;
mod verbs;
mod work;
mod workplaces;
