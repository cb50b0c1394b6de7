//! `FAULTS.md` names real tests.
