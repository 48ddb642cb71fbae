//! What an experiment needs besides runs: `io-throttle`, the limits of proposal 004, which no
//! option of the command line sets.

use elevon_core::control::io_throttle::{Config, Limit, LimitKind, Policy, Work};
use elevon_core::stack::Stack;
use elevon_core::tenant::ROOT;
use elevon_core::units::{Instant, TenantId};

use super::value::Value;

const NAME: &str = "io-throttle";
const SETTINGS: [&str; 4] = ["hooks", "counter", "class_aware", "limit"];

/// Sets up io-throttle before a run, and reads its counters afterwards.
pub(super) struct Hooked {
    /// False on a kernel without the proposal.
    hooks: bool,
    config: Config,
    limit: Option<Limit>,
    work: Work,
}

impl Hooked {
    /// Returns the hook of that name.
    pub(super) fn new(name: &str) -> Result<Self, String> {
        if name != NAME {
            return Err(format!("no such hook: {name}; there is {NAME}"));
        }
        Ok(Self { hooks: true, config: Config::default(), limit: None, work: Work::default() })
    }

    /// Sets one of [`SETTINGS`]; 0 is off. `limit` is in bytes per second.
    pub(super) fn set(&mut self, name: &str, number: f64) -> Result<(), String> {
        let is_on = number != 0.0;
        match name {
            "hooks" => self.hooks = is_on,
            "counter" => self.config.counter = is_on,
            "class_aware" => self.config.class_aware = is_on,
            "limit" if (0.0..1e15).contains(&number) => {
                self.limit = is_on.then_some(Limit { rate: number as u64, policy: Policy::Leaky });
            }
            "limit" => return Err("expected bytes per second, or 0 for no limit".to_owned()),
            _ => {
                return Err(format!(
                    "no such setting of {NAME}: {name}; there are {}",
                    SETTINGS.join(", ")
                ));
            }
        }
        Ok(())
    }

    pub(super) fn prepare(&self, stack: &mut Stack) {
        let control = stack.control_mut();
        if self.hooks {
            control.configure_io_throttle(self.config);
        }
        if self.limit.is_some() {
            // The only cgroup of the job file.
            let tenant = TenantId(1);
            if !control.tenants().is_alive(tenant) {
                control.add_tenant(ROOT).expect("room for a tenant");
            }
            control
                .set_io_throttle(Instant::ZERO, tenant, LimitKind::Bandwidth, self.limit)
                .expect("a valid rule");
        }
    }

    pub(super) fn on_end(&mut self, stack: &Stack) {
        use elevon_core::control::Stage as _;
        let throttle = stack.control().io_throttle();
        assert_eq!(throttle.held(), 0, "the run left bios behind");
        self.work = throttle.work();
    }

    /// Returns what was counted: the lookups of rules.
    pub(super) fn figures(&self) -> [(String, Value); 1] {
        [("lookups".to_owned(), Value::Number(self.work.lookups as f64))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_names() {
        let mut hook = Hooked::new(NAME).expect("the hook");
        assert_eq!(
            hook.set("limit", 1000.0).map(|()| hook.limit.map(|limit| limit.rate)),
            Ok(Some(1000))
        );
        assert!(
            hook.set("limits", 1.0)
                .is_err_and(|message| message.ends_with("hooks, counter, class_aware, limit"))
        );
        assert!(Hooked::new("x").is_err_and(|message| message.contains("there is io-throttle")));
    }
}
