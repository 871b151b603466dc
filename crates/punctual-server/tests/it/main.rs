//! Black-box tests of the server: one binary.
