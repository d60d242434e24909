//! Parameter sweep: one weight or parameter of a policy, varied by `POLICY:SCORER=1,2,4` or `POLICY:PLUGIN.PARAMETER=1,2,4`.

use crate::SimulateError;
use crate::policy::Policy;

/// A policy with several values of a parameter.
#[derive(Debug)]
pub(crate) struct ParameterSweep {
    /// The policy's name.
    pub(crate) policy: String,
    /// What is varied.
    pub(crate) name: String,
    /// Each value, and the policy with it.
    pub(crate) points: Vec<(f64, Policy)>,
}

impl ParameterSweep {
    /// Reads what `--sweep` says.
    pub(crate) fn read(text: &str) -> Result<Self, SimulateError> {
        let wrong = |why: String| SimulateError::SweepResult(text.to_owned(), why);
        let (what, values) = text.rsplit_once('=').ok_or_else(|| wrong("there is no `=`".to_owned()))?;
        let (policy, what) = what.rsplit_once(':').ok_or_else(|| wrong("there is no `:`".to_owned()))?;
        let policy = Policy::find(policy.trim())?;
        let what = what.trim();
        let point = |value: &str| {
            let number = value.trim().parse::<f64>().ok().filter(|number| number.is_finite());
            let number = number.ok_or_else(|| wrong(format!("`{value}` is not a number")))?;
            let (changed, kind) = match what.split_once('.') {
                Some((plugin, parameter)) => (policy.with_parameter(plugin, parameter, number), "plugin or parameter"),
                None => (policy.with_weight(what, number), "scorer"),
            };
            let changed = changed.ok_or_else(|| wrong(format!("`{}` has no {kind} `{what}`", policy.name)))?;
            Ok((number, changed))
        };
        let points = values.split(',').map(point).collect::<Result<Vec<_>, SimulateError>>()?;
        Ok(Self { name: what.to_owned(), points, policy: policy.name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_and_parameters_are_varied() {
        let weights = ParameterSweep::read("cache_aware:cache=1,2.5").unwrap();
        assert_eq!((weights.policy.as_str(), weights.name.as_str()), ("cache_aware", "cache"));
        assert_eq!(weights.points.iter().map(|(value, _)| *value).collect::<Vec<_>>(), [1.0, 2.5]);
        assert_ne!(weights.points[0].1, weights.points[1].1);
        let parameters = ParameterSweep::read("cache_aware:load.form.limit.limit=8,64").unwrap();
        assert_eq!(parameters.name, "load.form.limit.limit");
        parameters.points.iter().for_each(|(_, policy)| policy.check().unwrap());
    }

    #[test]
    fn what_cannot_be_varied_is_told() {
        let told = |text: &str| ParameterSweep::read(text).unwrap_err().to_string();
        assert!(told("cache_aware").contains("no `=`"));
        assert!(told("cache=1").contains("no `:`"));
        assert!(told("cache_aware:cache=1,x").contains("`x` is not a number"));
        assert!(told("cache_aware:cache=1,").contains("`` is not a number"));
        assert!(told("cache_aware:cache=nan").contains("`nan` is not a number"));
        assert!(told("cache_aware:nobody=1").contains("no scorer `nobody`"));
        assert!(told("cache_aware:load.form=1").contains("no plugin or parameter `load.form`"));
        assert!(told("cache_awar:cache=1").contains("did you mean `cache_aware`"));
    }
}
