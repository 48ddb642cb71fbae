//! Expressions and templates of experiments: their syntax.
//!
//! A template is a text with expressions in braces: `{five.bw / 1e6:.1} MB/s`. Behind the last
//! colon stands a format: `.1` for decimals, or `+.1` with a sign. A text in single quotes inside
//! an expression is a template too. `docs/reference/reproduce.md` describes the language.

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expr {
    Number(f64),
    Text(Template),
    Name(String),
    List(Vec<Self>),
    /// A list with an element for each of another: `[e for x in list if condition]`.
    Each {
        element: Box<Self>,
        name: String,
        list: Box<Self>,
        condition: Option<Box<Self>>,
    },
    Field(Box<Self>, String),
    /// An element by its number, or a field by its name.
    Index(Box<Self>, Box<Self>),
    /// The first element whose fields have these values: `[setting: 'none']`.
    Pick(Box<Self>, Vec<(String, Self)>),
    Call(String, Vec<Self>),
    Not(Box<Self>),
    Minus(Box<Self>),
    Both(Operator, Box<Self>, Box<Self>),
}

/// An operator of two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    And,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Plus,
    Minus,
    Times,
    Over,
}

use Operator::{
    And, Equal, Greater, GreaterOrEqual, Less, LessOrEqual, Minus, Or, Over, Plus, Times, Unequal,
};

/// Operators by precedence; each group binds more than the one before it. Longer ones come first.
const OPERATORS: [&[(&str, Operator)]; 5] = [
    &[("or", Or)],
    &[("and", And)],
    &[
        ("==", Equal),
        ("!=", Unequal),
        ("<=", LessOrEqual),
        (">=", GreaterOrEqual),
        ("<", Less),
        (">", Greater),
    ],
    &[("+", Plus), ("-", Minus)],
    &[("*", Times), ("/", Over)],
];

/// Deepest nesting of an expression.
const MAX_NESTING: usize = 40;

/// A text with expressions in it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Template(pub(super) Vec<Part>);

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    Text(String),
    Value(Expr, Format),
}

/// How a number is formatted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Format {
    /// A plus before a number that is not negative.
    pub(super) sign: bool,
    pub(super) decimals: Option<usize>,
}

/// A syntax error: the byte at which it is, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SyntaxError {
    pub(super) at: usize,
    pub(super) message: String,
}

type Parsed<T> = Result<T, SyntaxError>;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Expr {
    /// Parses a whole text as an expression.
    pub(super) fn parse(text: &str) -> Parsed<Self> {
        let mut parser = Parser { text, at: 0, depth: 0 };
        let found = parser.expression(0)?;
        parser.space();
        if parser.at < text.len() {
            parser.fail("expected an operator, or the end of the expression")
        } else {
            Ok(found)
        }
    }
}

impl Template {
    /// Parses a text with expressions in braces; `{{` and `}}` are braces.
    pub(super) fn parse(text: &str) -> Parsed<Self> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut at = 0;
        while let Some(letter) = text[at..].chars().next() {
            match letter {
                '{' | '}' if text[at + 1..].starts_with(letter) => {
                    plain.push(letter);
                    at += 2;
                }
                '}' => {
                    return Err(SyntaxError {
                        at,
                        message: "expected { before this }; write }} for a brace".into(),
                    });
                }
                '{' => {
                    let end = inner_end(text, at + 1)?;
                    if !plain.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut plain)));
                    }
                    let (expression, format) = formatted(&text[at + 1..end]);
                    let within =
                        |error: SyntaxError| SyntaxError { at: at + 1 + error.at, ..error };
                    parts.push(Part::Value(Expr::parse(expression).map_err(within)?, format));
                    at = end + 1;
                }
                _ => {
                    plain.push(letter);
                    at += letter.len_utf8();
                }
            }
        }
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self(parts))
    }
}

/// Returns the byte of the brace that closes an expression which starts at `from`.
fn inner_end(text: &str, from: usize) -> Parsed<usize> {
    let (mut open, mut quoted) = (0, false);
    for (at, letter) in text[from..].char_indices() {
        match letter {
            '\'' => quoted = !quoted,
            '{' if !quoted => open += 1,
            '}' if !quoted && open == 0 => return Ok(from + at),
            '}' if !quoted => open -= 1,
            _ => {}
        }
    }
    Err(SyntaxError {
        at: from - 1,
        message: "expected } at the end of this expression; write {{ for a brace".into(),
    })
}

/// Divides an expression from the format behind its last colon.
fn formatted(text: &str) -> (&str, Format) {
    let plain = (text, Format::default());
    let Some((expression, format)) = text.rsplit_once(':') else { return plain };
    let (sign, rest) = format.strip_prefix('+').map_or((false, format), |rest| (true, rest));
    let decimals =
        rest.strip_prefix('.').and_then(|digits| digits.parse().ok()).filter(|digits| *digits <= 9);
    match decimals {
        Some(decimals) => (expression, Format { sign, decimals: Some(decimals) }),
        None if sign && rest.is_empty() => (expression, Format { sign, decimals: None }),
        None => plain,
    }
}

impl Parser<'_> {
    fn fail<T>(&self, message: &str) -> Parsed<T> {
        Err(SyntaxError { at: self.at, message: message.to_owned() })
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Skips a word or sign if it comes next.
    fn skip(&mut self, word: &str) -> bool {
        self.space();
        let is_name = word.ends_with(char::is_alphabetic);
        let follows = self.rest().strip_prefix(word);
        let found = follows.is_some_and(|rest| !(is_name && rest.starts_with(in_name)));
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn expect(&mut self, word: &str) -> Parsed<()> {
        if self.skip(word) { Ok(()) } else { self.fail(&format!("expected `{word}`")) }
    }

    /// Takes a name if one comes next.
    fn name(&mut self) -> Option<String> {
        self.space();
        let rest = self.rest();
        if !rest.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_') {
            return None;
        }
        let end = rest.find(|letter| !in_name(letter)).unwrap_or(rest.len());
        let name = rest[..end].to_owned();
        self.at += end;
        Some(name)
    }

    fn expression(&mut self, level: usize) -> Parsed<Expr> {
        let Some(operators) = OPERATORS.get(level) else { return self.unary() };
        let mut left = self.expression(level + 1)?;
        while let Some(&(_, operator)) = operators.iter().find(|(word, _)| self.skip(word)) {
            let right = self.expression(level + 1)?;
            left = Expr::Both(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed<Expr> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return self.fail("expected fewer parentheses");
        }
        let found = if self.skip("not") {
            Expr::Not(Box::new(self.unary()?))
        } else if self.skip("-") {
            Expr::Minus(Box::new(self.unary()?))
        } else {
            self.postfix()?
        };
        self.depth -= 1;
        Ok(found)
    }

    fn postfix(&mut self) -> Parsed<Expr> {
        let mut found = self.primary()?;
        loop {
            if self.skip(".") {
                let Some(name) = self.name() else {
                    return self.fail("expected the name of a field");
                };
                found = Expr::Field(Box::new(found), name);
            } else if self.skip("[") {
                found = self.brackets(found)?;
            } else {
                return Ok(found);
            }
        }
    }

    /// Parses what stands in brackets behind a value.
    fn brackets(&mut self, value: Expr) -> Parsed<Expr> {
        let mut wanted = Vec::new();
        loop {
            let start = self.at;
            match self.name() {
                Some(name) if self.skip(":") => wanted.push((name, self.expression(0)?)),
                _ if wanted.is_empty() => {
                    self.at = start;
                    let index = self.expression(0)?;
                    self.expect("]")?;
                    return Ok(Expr::Index(Box::new(value), Box::new(index)));
                }
                _ => return self.fail("expected `field: value`"),
            }
            if !self.skip(",") {
                self.expect("]")?;
                return Ok(Expr::Pick(Box::new(value), wanted));
            }
        }
    }

    fn primary(&mut self) -> Parsed<Expr> {
        if self.skip("(") {
            let found = self.expression(0)?;
            self.expect(")")?;
            return Ok(found);
        }
        if self.skip("[") {
            return self.list();
        }
        if self.skip("'") {
            let Some(end) = self.rest().find('\'') else {
                return self.fail("expected ' at the end of this text");
            };
            let start = self.at;
            let template = Template::parse(&self.rest()[..end]);
            self.at += end + 1;
            return template
                .map(Expr::Text)
                .map_err(|error| SyntaxError { at: start + error.at, ..error });
        }
        if let Some(name) = self.name() {
            return if self.skip("(") {
                Ok(Expr::Call(name, self.items(")")?))
            } else {
                Ok(Expr::Name(name))
            };
        }
        self.number()
    }

    fn number(&mut self) -> Parsed<Expr> {
        let rest = self.rest();
        let digits = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let mut end = digits(rest);
        if rest[end..].starts_with('.') {
            end += 1 + digits(&rest[end + 1..]);
        }
        if let Some(exponent) = rest[end..].strip_prefix('e') {
            let sign = usize::from(exponent.starts_with('-'));
            end += 1 + sign + digits(&exponent[sign..]);
        }
        match rest[..end].parse() {
            Ok(number) => {
                self.at += end;
                Ok(Expr::Number(number))
            }
            Err(_) => self.fail("expected a number, a name, a text in single quotes, `(` or `[`"),
        }
    }

    /// Parses expressions with commas between them, up to a closing sign.
    fn items(&mut self, end: &str) -> Parsed<Vec<Expr>> {
        let mut all = Vec::new();
        while !self.skip(end) {
            if !all.is_empty() {
                if !self.skip(",") {
                    return self.fail(&format!("expected `,` or `{end}`"));
                }
                if self.skip(end) {
                    break;
                }
            }
            all.push(self.expression(0)?);
        }
        Ok(all)
    }

    fn list(&mut self) -> Parsed<Expr> {
        if self.skip("]") {
            return Ok(Expr::List(Vec::new()));
        }
        let first = self.expression(0)?;
        if self.skip("for") {
            let Some(name) = self.name() else { return self.fail("expected a name") };
            self.expect("in")?;
            let list = Box::new(self.expression(0)?);
            let condition =
                if self.skip("if") { Some(Box::new(self.expression(0)?)) } else { None };
            self.expect("]")?;
            return Ok(Expr::Each { element: Box::new(first), name, list, condition });
        }
        let mut all = vec![first];
        if self.skip(",") {
            all.extend(self.items("]")?);
        } else {
            self.expect("]")?;
        }
        Ok(Expr::List(all))
    }
}

const fn in_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_bind_as_usual() {
        let same = |a: &str, b: &str| assert_eq!(Expr::parse(a), Expr::parse(b));
        same("1 + 2 * 3 == 7 and not 0 or x", "((1 + (2 * 3)) == 7) and (not 0) or x");
        same("-a.b[0]", "-((a.b)[0])");
        same("a - b - c", "(a - b) - c");
        same("order", "(order)");
        same("[1, 2,]", "[1, 2]");
    }

    #[test]
    fn templates_have_formats() {
        let template = Template::parse("{{x}} {a[b: 'c']:+.1} {a}").expect("a template");
        let formats: Vec<Format> = template
            .0
            .iter()
            .filter_map(|part| match part {
                Part::Value(_, format) => Some(*format),
                Part::Text(_) => None,
            })
            .collect();
        assert_eq!(formats, [Format { sign: true, decimals: Some(1) }, Format::default()]);
        assert_eq!(template.0[0], Part::Text("{x} ".to_owned()));
    }

    #[test]
    fn errors_say_where_and_what_would_be_right() {
        for (text, at, message) in [
            ("1 +", 3, "expected a number"),
            ("(1", 2, "expected `)`"),
            ("a b", 2, "expected an operator"),
            ("[x for in y]", 10, "expected `in`"),
            ("a.1", 2, "expected the name of a field"),
            ("'x", 1, "expected ' at the end"),
        ] {
            let error = Expr::parse(text).expect_err(text);
            assert!(error.at == at && error.message.starts_with(message), "{text}: {error:?}");
        }
        assert_eq!(Template::parse("a {b").expect_err("no end").at, 2);
        assert_eq!(Template::parse("a {1 +} b").expect_err("no operand").at, 6);
        assert!(Expr::parse(&"(".repeat(100_000)).is_err());
    }
}
