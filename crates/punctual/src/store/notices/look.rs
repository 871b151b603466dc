//! What people are shown: notices, and the communication log.
