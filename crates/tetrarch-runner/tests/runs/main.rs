//! The runner with real programs: shells and small Python scripts. Nothing is replaced by a
//! double, and every wait is for an event, bounded only so that a broken runner fails the test.

#[cfg(test)]
mod adapter;
#[cfg(test)]
mod allowance;
#[cfg(test)]
mod committing;
#[cfg(test)]
mod containment;
#[cfg(test)]
mod drivers;
#[cfg(test)]
mod ending;
#[cfg(test)]
mod escapes;
#[cfg(test)]
mod expected;
#[cfg(test)]
mod keeping;
#[cfg(test)]
mod links;
#[cfg(test)]
mod merging;
mod once;
#[cfg(test)]
mod plain;
#[cfg(test)]
mod protocol;
#[cfg(test)]
mod repository;
#[cfg(test)]
mod rotation;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod verbs;
#[cfg(test)]
mod worktree;
