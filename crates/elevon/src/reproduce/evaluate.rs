//! The values of expressions: names, fields, operators, and the functions that there are.

use std::collections::BTreeMap;

use elevon_core::nearest::did_you_mean;
use elevon_result::interval::{Interval, RatioInterval};

use super::expression::{Expr, Format, Operator, Part, Template};
use super::value::{Value, list, numbers, record, text};

/// Names that an experiment defines, and its own functions.
#[derive(Default)]
pub(super) struct Globals {
    pub(super) names: BTreeMap<String, Value>,
    pub(super) functions: BTreeMap<String, Function>,
}

/// A function of an experiment.
pub(super) struct Function {
    pub(super) arguments: Vec<String>,
    pub(super) body: Expr,
}

/// The names that an expression may use.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) globals: &'a Globals,
    /// Names of axes, of loops and of `let`; later ones hide earlier ones.
    pub(super) own: &'a [(String, Value)],
    parent: Option<&'a Self>,
    depth: usize,
}

type Found = Result<Value, String>;

/// Deepest nesting of calls.
const MAX_CALL_DEPTH: usize = 60;

/// Functions that there are: their names with their arguments.
pub(super) const FUNCTIONS: &[&str] = &[
    "abs",
    "all",
    "any",
    "ceil",
    "chunks",
    "concat",
    "deviation",
    "distinct",
    "exp",
    "first",
    "flat",
    "floor",
    "get",
    "if",
    "interpolate",
    "join",
    "last",
    "len",
    "max",
    "mean",
    "min",
    "percent",
    "range",
    "ratio",
    "round",
    "solve",
    "sort",
    "sqrt",
    "sum",
    "values",
    "within",
];

impl<'a> Scope<'a> {
    pub(super) const fn new(globals: &'a Globals, own: &'a [(String, Value)]) -> Self {
        Self { globals, own, parent: None, depth: 0 }
    }

    /// Returns this scope with more names.
    const fn with<'b>(&'b self, own: &'b [(String, Value)]) -> Scope<'b>
    where
        'a: 'b,
    {
        Scope { globals: self.globals, own, parent: Some(self), depth: self.depth }
    }

    fn find(&self, name: &str) -> Option<&Value> {
        let own = self.own.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value);
        own.or_else(|| match self.parent {
            Some(parent) => parent.find(name),
            None => self.globals.names.get(name),
        })
    }

    /// Returns the text of a template.
    pub(super) fn fill(&self, template: &Template) -> Result<String, String> {
        let mut out = String::new();
        for part in &template.0 {
            match part {
                Part::Text(words) => out.push_str(words),
                Part::Value(expr, format) => out.push_str(&self.value(expr)?.shown(*format)?),
            }
        }
        Ok(out)
    }

    /// Returns the value of an expression.
    pub(super) fn value(&self, expr: &Expr) -> Found {
        match expr {
            Expr::Number(number) => Ok(Value::Number(*number)),
            Expr::Text(template) => Ok(text(self.fill(template)?)),
            Expr::Name(name) => {
                self.find(name).cloned().ok_or_else(|| format!("{name} has no value yet"))
            }
            Expr::List(all) => {
                Ok(Value::List(all.iter().map(|one| self.value(one)).collect::<Result<_, _>>()?))
            }
            Expr::Each { element, name, list, condition } => {
                let mut found = Vec::new();
                for value in self.value(list)?.list()? {
                    let own = [(name.clone(), value.clone())];
                    let scope = self.with(&own);
                    let is_wanted = condition
                        .as_ref()
                        .map_or(Ok(true), |one| scope.value(one).map(|one| one.holds()))?;
                    if is_wanted {
                        found.push(scope.value(element)?);
                    }
                }
                Ok(list_of(found))
            }
            Expr::Field(value, name) => field(&self.value(value)?, name),
            Expr::Index(value, index) => index_of(&self.value(value)?, &self.value(index)?),
            Expr::Pick(value, wanted) => {
                let wanted: Vec<(&str, Value)> = wanted
                    .iter()
                    .map(|(name, one)| Ok((name.as_str(), self.value(one)?)))
                    .collect::<Result<_, String>>()?;
                pick(&self.value(value)?, &wanted)
            }
            Expr::Call(name, arguments) => self.call(name, arguments),
            Expr::Not(value) => Ok(Value::Flag(!self.value(value)?.holds())),
            Expr::Minus(value) => each(&self.value(value)?, &|x| -x),
            Expr::Both(operator, a, b) => self.both(*operator, a, b),
        }
    }

    fn both(&self, operator: Operator, a: &Expr, b: &Expr) -> Found {
        let left = self.value(a)?;
        match operator {
            // As in Python, the value of `a or b` is that of a or b.
            Operator::Or => return if left.holds() { Ok(left) } else { self.value(b) },
            Operator::And => return if left.holds() { self.value(b) } else { Ok(left) },
            _ => {}
        }
        let right = self.value(b)?;
        let compare = |holds: &dyn Fn(f64, f64) -> bool| -> Found {
            pairs(&left, &right, &|a, b| Value::Flag(holds(a, b)))
        };
        let count = |result: &dyn Fn(f64, f64) -> f64| {
            pairs(&left, &right, &|a, b| Value::Number(result(a, b)))
        };
        match operator {
            Operator::Equal => Ok(Value::Flag(left.is(&right))),
            Operator::Unequal => Ok(Value::Flag(!left.is(&right))),
            Operator::Less => compare(&|a, b| a < b),
            Operator::LessOrEqual => compare(&|a, b| a <= b),
            Operator::Greater => compare(&|a, b| a > b),
            Operator::GreaterOrEqual => compare(&|a, b| a >= b),
            Operator::Plus => count(&|a, b| a + b),
            Operator::Minus => count(&|a, b| a - b),
            Operator::Times => count(&|a, b| a * b),
            Operator::Over => count(&|a, b| a / b),
            Operator::Or | Operator::And => unreachable!("evaluated above"),
        }
    }

    fn call(&self, name: &str, arguments: &[Expr]) -> Found {
        if self.depth > MAX_CALL_DEPTH {
            return Err(format!("{name} calls itself too often"));
        }
        if name == "if" {
            let [condition, yes, no] = arguments else {
                return Err("if(condition, value, other) takes three".to_owned());
            };
            return self.value(if self.value(condition)?.holds() { yes } else { no });
        }
        let values: Vec<Value> =
            arguments.iter().map(|one| self.value(one)).collect::<Result<_, _>>()?;
        if name == "solve" {
            return self.solve(&values);
        }
        match self.globals.functions.get(name) {
            Some(function) => self.apply(name, function, values),
            None => call(name, &values),
        }
    }

    /// Returns the value of an experiment's own function, which sees its arguments and all global
    /// names.
    fn apply(&self, name: &str, function: &Function, values: Vec<Value>) -> Found {
        if values.len() != function.arguments.len() {
            return Err(format!(
                "{name}({}) takes {}",
                function.arguments.join(", "),
                function.arguments.len()
            ));
        }
        let own: Vec<(String, Value)> = function.arguments.iter().cloned().zip(values).collect();
        Scope { globals: self.globals, own: &own, parent: None, depth: self.depth + 1 }
            .value(&function.body)
    }

    /// Returns the argument at which an experiment's own function has a value, by halving the
    /// interval in which it is; `solve('f', value, low, high)`.
    fn solve(&self, values: &[Value]) -> Found {
        let [Value::Text(name), wanted, low, high] = values else {
            return Err("expected solve('function', value, low, high)".to_owned());
        };
        let function = self
            .globals
            .functions
            .get(&**name)
            .ok_or_else(|| format!("there is no function {name}"))?;
        let at = |x: f64| self.apply(name, function, vec![Value::Number(x)])?.number();
        let (wanted, mut low, mut high) = (wanted.number()?, low.number()?, high.number()?);
        let falls = at(high)? < at(low)?;
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if (at(middle)? > wanted) == falls { low = middle } else { high = middle }
        }
        Ok(Value::Number(low))
    }
}

fn list_of(values: Vec<Value>) -> Value {
    Value::List(values.into())
}

/// Applies a function to a number or to each of a list.
fn each(value: &Value, function: &dyn Fn(f64) -> f64) -> Found {
    match value {
        Value::None => Ok(Value::None),
        Value::List(all) => {
            Ok(list_of(all.iter().map(|one| each(one, function)).collect::<Result<_, _>>()?))
        }
        value => Ok(Value::Number(function(value.number()?))),
    }
}

/// Applies an operator to two numbers, to the numbers of two lists in pairs, or to those of a list
/// and a number. Of nothing it makes nothing.
fn pairs(a: &Value, b: &Value, operator: &dyn Fn(f64, f64) -> Value) -> Found {
    match (a, b) {
        (Value::None, _) | (_, Value::None) => Ok(Value::None),
        (Value::List(x), Value::List(y)) if x.len() != y.len() => {
            Err(format!("expected lists of the same length, found {} and {}", x.len(), y.len()))
        }
        (Value::List(x), Value::List(y)) => Ok(list_of(
            x.iter().zip(y.iter()).map(|(a, b)| pairs(a, b, operator)).collect::<Result<_, _>>()?,
        )),
        (Value::List(x), b) => {
            Ok(list_of(x.iter().map(|a| pairs(a, b, operator)).collect::<Result<_, _>>()?))
        }
        (a, Value::List(y)) => {
            Ok(list_of(y.iter().map(|b| pairs(a, b, operator)).collect::<Result<_, _>>()?))
        }
        (a, b) => Ok(operator(a.number()?, b.number()?)),
    }
}

/// Returns a field of a table or run, or of each of a list.
fn field(value: &Value, name: &str) -> Found {
    let missing =
        |known: Vec<&str>| format!("no {name} here{}", did_you_mean(name, known.iter().copied()));
    match value {
        Value::None => Ok(Value::None),
        Value::List(all) => {
            Ok(list_of(all.iter().map(|one| field(one, name)).collect::<Result<_, _>>()?))
        }
        Value::Record(all) => {
            all.get(name).cloned().ok_or_else(|| missing(all.keys().map(String::as_str).collect()))
        }
        Value::Run(run) => run.field(name).cloned().ok_or_else(|| missing(run.names().collect())),
        other => Err(format!("{} has no .{name}", other.kind())),
    }
}

fn index_of(value: &Value, index: &Value) -> Found {
    match (value, index) {
        (Value::None, _) => Ok(Value::None),
        (_, Value::Text(name)) => field(value, name),
        (Value::List(all), Value::Number(number)) => {
            let at = if *number < 0.0 { all.len() as f64 + number } else { *number };
            all.get(at as usize)
                .filter(|_| at >= 0.0)
                .cloned()
                .ok_or_else(|| format!("there is no [{number}] in a list of {}", all.len()))
        }
        (value, index) => Err(format!("{} has no element at {}", value.kind(), index.kind())),
    }
}

/// Returns the first element whose fields have these values; nothing if there is none.
fn pick(value: &Value, wanted: &[(&str, Value)]) -> Found {
    if matches!(value, Value::None) {
        return Ok(Value::None);
    }
    for one in value.list()? {
        let mut is_it = true;
        for (name, value) in wanted {
            is_it = is_it && field(one, name)?.is(value);
        }
        if is_it {
            return Ok(one.clone());
        }
    }
    Ok(Value::None)
}

/// Applies a function to all numbers: min(a, b) is min([a, b]).
fn many(values: &[Value], what: &dyn Fn(Vec<f64>) -> f64) -> Found {
    if values.iter().any(|value| matches!(value, Value::None)) {
        return Ok(Value::None);
    }
    let all = if let [one @ Value::List(_)] = values {
        one.numbers()
    } else {
        list_of(values.to_vec()).numbers()
    };
    all.map(|all| Value::Number(what(all)))
}

/// Calls one of [`FUNCTIONS`].
fn call(name: &str, values: &[Value]) -> Found {
    match (name, values) {
        ("abs", [x]) => each(x, &f64::abs),
        ("ceil", [x]) => each(x, &f64::ceil),
        ("floor", [x]) => each(x, &f64::floor),
        ("round", [x]) => each(x, &f64::round),
        ("sqrt", [x]) => each(x, &libm::sqrt),
        ("exp", [x]) => each(x, &libm::exp),
        ("min", [_, ..]) => many(values, &|all| all.into_iter().fold(f64::INFINITY, f64::min)),
        ("max", [_, ..]) => many(values, &|all| all.into_iter().fold(f64::NEG_INFINITY, f64::max)),
        ("sum", [_, ..]) => many(values, &|all| all.into_iter().sum()),
        ("mean", [_, ..]) => {
            many(values, &|all| Interval::from_samples(&all).unwrap_or_default().mean)
        }
        ("deviation", [_, ..]) => many(values, &|all| deviation(&all)),
        ("percent", [value, of]) => {
            pairs(value, of, &|value, of| Value::Number(100.0 * (value / of - 1.0)))
        }
        ("within", [value, of, percent]) => {
            let (value, of, percent) = (value.number()?, of.number()?, percent.number()?);
            Ok(Value::Flag((100.0 * (value / of - 1.0)).abs() <= percent))
        }
        ("all", [values]) => Ok(Value::Flag(values.list()?.iter().all(Value::holds))),
        ("any", [values]) => Ok(Value::Flag(values.list()?.iter().any(Value::holds))),
        ("len", [values]) => Ok(Value::Number(values.list()?.len() as f64)),
        ("first", [values]) => Ok(values.list()?.first().cloned().unwrap_or(Value::None)),
        ("last", [values]) => Ok(values.list()?.last().cloned().unwrap_or(Value::None)),
        ("get", [Value::Record(all), Value::Text(name)]) => {
            Ok(all.get(&**name).cloned().unwrap_or(Value::None))
        }
        ("join", [values, Value::Text(between)]) => {
            let words: Result<Vec<_>, _> =
                values.list()?.iter().map(|one| one.shown(Format::default())).collect();
            Ok(text(words?.join(between)))
        }
        ("range", [from, to]) => range(from.number()?, to.number()?),
        ("ratio", [values]) => Ok(ratio(&values.numbers()?)),
        ("sort", [values]) => {
            let mut all = values.numbers()?;
            all.sort_by(f64::total_cmp);
            Ok(numbers(all))
        }
        ("concat", lists) => {
            let lists = lists.iter().map(Value::list).collect::<Result<Vec<_>, _>>()?;
            Ok(list(lists.into_iter().flatten().cloned()))
        }
        ("flat", [lists]) => {
            let lists = lists.list()?.iter().map(Value::list).collect::<Result<Vec<_>, _>>()?;
            Ok(list(lists.into_iter().flatten().cloned()))
        }
        ("values", [Value::Record(all)]) => Ok(list(all.values().cloned())),
        ("distinct", [values]) => Ok(list_of(distinct(values.list()?))),
        ("chunks", [values, keys]) => chunks(values.list()?, keys.list()?),
        ("interpolate", [from, to, at]) => {
            interpolate(&from.numbers()?, &to.numbers()?, at.number()?)
        }
        _ if FUNCTIONS.contains(&name) => {
            Err(format!("{name} does not take {} of that kind", values.len()))
        }
        _ => Err(format!(
            "there is no function {name}{}",
            did_you_mean(name, FUNCTIONS.iter().copied())
        )),
    }
}

/// Returns the numbers from `from` to `to` in steps of 1.
fn range(from: f64, to: f64) -> Found {
    if to - from > 1e6 {
        return Err("expected a range of 1000000 numbers at most".to_owned());
    }
    Ok(numbers((0..).map(|at| from + f64::from(at)).take_while(|&number| number <= to)))
}

/// Returns the sample standard deviation.
fn deviation(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
    if values.len() < 2 { 0.0 } else { (squares / (values.len() - 1) as f64).sqrt() }
}

/// Returns the geometric mean of ratios and the ends of its 95 % interval; without an interval, as
/// of one ratio, the ends are 0 and infinity.
fn ratio(ratios: &[f64]) -> Value {
    let pairs: Vec<(f64, f64)> = ratios.iter().map(|&ratio| (1.0, ratio)).collect();
    let (mean, bounds) = RatioInterval::from_pairs(&pairs)
        .map_or((f64::NAN, None), |found| (found.ratio, found.bounds));
    let (low, high) = bounds.unwrap_or((0.0, f64::INFINITY));
    record([
        ("mean", Value::Number(mean)),
        ("low", Value::Number(low)),
        ("high", Value::Number(high)),
        ("is_known", Value::Flag(bounds.is_some())),
    ])
}

fn distinct(values: &[Value]) -> Vec<Value> {
    let mut found: Vec<Value> = Vec::new();
    for value in values {
        if !found.iter().any(|known| known.is(value)) {
            found.push(value.clone());
        }
    }
    found
}

/// Divides a list into lists of neighbours whose keys are the same.
fn chunks(values: &[Value], keys: &[Value]) -> Found {
    if values.len() != keys.len() {
        return Err("expected as many keys as values".to_owned());
    }
    let mut found: Vec<Vec<Value>> = Vec::new();
    for (at, value) in values.iter().enumerate() {
        match found.last_mut().filter(|_| keys[at].is(&keys[at.saturating_sub(1)])) {
            Some(last) => last.push(value.clone()),
            None => found.push(vec![value.clone()]),
        }
    }
    Ok(list(found.into_iter().map(list_of)))
}

/// Returns the value of `to` where `from`, which rises, reaches `at`; between elements on a
/// straight line; nothing if it does not reach it.
fn interpolate(from: &[f64], to: &[f64], at: f64) -> Found {
    let steps = from.windows(2).zip(to.windows(2));
    let step = steps.into_iter().find(|(from, _)| (from[0]..=from[1]).contains(&at));
    Ok(step.map_or(Value::None, |(from, to)| {
        Value::Number(to[0] + (to[1] - to[0]) * (at - from[0]) / (from[1] - from[0]))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(expression: &str) -> Result<String, String> {
        let mut globals = Globals::default();
        let setting =
            |name: &str, mb: f64| record([("name", text(name)), ("mb", Value::Number(mb))]);
        globals.names.insert("runs".to_owned(), list([setting("a", 10.0), setting("b", 30.0)]));
        let body = Expr::parse("x * x").expect("an expression");
        globals
            .functions
            .insert("square".to_owned(), Function { arguments: vec!["x".to_owned()], body });
        let expr = Expr::parse(expression).map_err(|error| error.message)?;
        Scope::new(&globals, &[]).value(&expr)?.shown(Format::default())
    }

    #[test]
    fn lists_and_numbers() {
        for (expression, shown) in [
            ("runs.mb * 2 + [1, 2]", "21 and 62"),
            ("runs[name: 'b'].mb / runs[0].mb", "3"),
            ("[r.mb for r in runs if r.mb > 20]", "30"),
            ("all(runs.mb > 5) and not any(runs.mb > 30)", "yes"),
            ("runs[name: 'c'].mb > 3", "-"),
            ("if(runs[0] == 'a', 'is {runs[0]:.1}', 2)", "is a"),
            ("percent(110, 100) > 9.9", "yes"),
            ("square(3) + range(1, 3)", "10, 11 and 12"),
            ("interpolate([0, 10], [0, 100], 2.5)", "25"),
            ("interpolate([0, 10], [0, 100], 25)", "-"),
            ("round(solve('square', 2, 0, 4) * 1000)", "1414"),
            ("min(3, 1, 2) + max(runs.mb) + sum([1, 2]) + mean([1, 3])", "36"),
            ("join(distinct([1, 2, 1]), ' ')", "1 2"),
            ("len(chunks([1, 2, 3], ['x', 'x', 'y']))", "2"),
            ("concat([1], [], [2, 3])", "1, 2 and 3"),
            ("flat([[1], [2, 3]])", "1, 2 and 3"),
            ("values(runs[0])", "10 and a"),
            ("ratio([2, 2, 2]).mean < 2.001 and ratio([2]).is_known == (1 == 2)", "yes"),
        ] {
            assert_eq!(value(expression).as_deref(), Ok(shown), "{expression}");
        }
    }

    #[test]
    fn errors_say_what_is_wrong() {
        for (expression, message) in [
            ("run", "run has no value yet"),
            ("runs.md", "no md here (did you mean `mb`?)"),
            ("runs[5]", "there is no [5] in a list of 2"),
            ("sume([1])", "there is no function sume (did you mean `sum`?)"),
            ("1 + 'x'", "expected a number, found a text"),
            ("[1, 2] + [1, 2, 3]", "expected lists of the same length, found 2 and 3"),
            ("square(1, 2)", "square(x) takes 1"),
        ] {
            assert_eq!(value(expression), Err(message.to_owned()), "{expression}");
        }
    }
}
