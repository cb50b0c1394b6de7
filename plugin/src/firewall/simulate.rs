//! `simulate: true`: nothing runs, the rules go to the log.

use proxy_init_rules::{Family, NatTable, RuleSet};

use super::{Backend, Failure, Installed, Overtaker};

pub(super) struct Simulate;

impl Backend for Simulate {
    fn install(&self, rules: &RuleSet) -> Result<Installed, Failure> {
        let family = rules.family();
        for rule in rules.rules() {
            tracing::info!(%family, %rule, "Simulated");
        }
        Ok(Installed::Fresh)
    }

    fn read(&self, family: Family) -> Result<NatTable, Failure> {
        Ok(NatTable::empty(family))
    }

    fn peek(&self, family: Family) -> Result<NatTable, Failure> {
        self.read(family)
    }

    fn overtakers(&self, _: Family) -> Vec<Overtaker> {
        Vec::new()
    }

    fn remove(&self, _: Family) -> Result<bool, Failure> {
        Ok(false)
    }
}
