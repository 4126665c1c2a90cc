//! Every form of subject, built and read; every wrong token named.
