//! What may go wrong on a node, one test for each row of `FAULTS.md` that no
//! other test stands for.

mod calls;
mod programs;
mod races;
mod shortage;
mod sizes;
mod table;
