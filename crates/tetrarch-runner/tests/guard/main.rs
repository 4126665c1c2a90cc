//! The fence around a host, with real processes: hosts that are killed and stopped, guards that
//! outlive them, programs that try to get away. Every wait is for a state, bounded only so that
//! a broken guard fails the test.

#[cfg(test)]
mod fencing;
#[cfg(test)]
mod lives;
#[cfg(test)]
mod machine;
#[cfg(test)]
mod replacing;
#[cfg(test)]
mod roles;
#[cfg(test)]
mod stage;
