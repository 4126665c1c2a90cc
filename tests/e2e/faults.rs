//! Faults of the bus, its disk and the network between processes (spec 10, Faults), with servers
//! of an operator's own. What needs namespaces of its own says so when it cannot have them.

mod cluster;
