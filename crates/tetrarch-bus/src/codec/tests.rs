//! Round trips of everything the codec reads and writes, and what it says of everything else.

mod bad_plans;
mod docs;
mod hostile;
mod leases;
mod ledgers;
mod letters;
mod messages;
mod people;
mod plannings;
mod requests;
mod samples;
