//! Checks of our own house.
fn main() {}
