//! A node that is short of something.
