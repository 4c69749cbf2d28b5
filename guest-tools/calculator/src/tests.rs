//! What `calculate` answers: tables of expressions, and properties of all of them.

use num_bigint::BigInt;
use num_rational::BigRational;
use proptest::prelude::*;

use super::lexer::{Token, read_tokens};
use super::{Refusal, evaluate};

fn value_of(expression: &str) -> String {
    evaluate(expression).unwrap_or_else(|refusal| panic!("{expression}: {refusal:?}")).value
}

fn refusal_of(expression: &str) -> String {
    let Refusal { position, reason } = evaluate(expression).expect_err(expression);
    format!("{position}: {reason}")
}

fn check_exact(expressions: &[(&str, &str)]) {
    for (expression, value) in expressions {
        let answer = evaluate(expression).unwrap_or_else(|refusal| panic!("{expression}: {refusal:?}"));
        assert_eq!(
            (answer.value.as_str(), answer.exact, answer.fraction),
            (*value, true, None),
            "{expression}"
        );
    }
}

#[test]
fn operators_are_exact() {
    check_exact(&[
        ("0.1 + 0.2", "0.3"),
        ("1 / 8", "0.125"),
        ("(19.99 * 3 + 4.50) * 1.2", "77.364"),
        ("1/3 + 1/3 + 1/3", "1"),
        ("-2^2", "-4"),
        ("(-2)^2", "4"),
        ("2^3^2", "512"),
        ("2**-2", "0.25"),
        ("--3", "3"),
        ("+3 - -3", "6"),
        ("7 % 3", "1"),
        ("-7 % 3", "2"),
        ("7 % -3", "-2"),
        ("5.5 % 2", "1.5"),
        ("1.5e3", "1500"),
        ("1E-3", "0.001"),
        (".5 + 5.", "5.5"),
        ("1e-7", "0.0000001"),
        ("1e-8", "1e-8"),
        ("-1.25e-30", "-1.25e-30"),
        ("0 * 5", "0"),
        ("-0", "0"),
        ("2^100", "1267650600228229401496703205376"),
        ("10^40", "10000000000000000000000000000000000000000"),
        ("10^400", "1e400"),
        ("123456789.123456789 * 987654321.987654321", "121932631356500531.347203169112635269"),
    ]);
}

#[test]
fn functions_are_exact_where_they_can_be() {
    check_exact(&[
        ("sqrt(144)", "12"),
        ("sqrt(0.25)", "0.5"),
        ("8^(1/3)", "2"),
        ("(4/9)^1.5 * 27", "8"),
        ("4^0.5", "2"),
        ("32^-0.2", "0.5"),
        ("cbrt(-27)", "-3"),
        ("0^0", "1"),
        ("0^0.5", "0"),
        ("(-1)^99999999999999999999999", "-1"),
        ("abs(-3.5)", "3.5"),
        ("round(2.5)", "3"),
        ("round(-2.5)", "-3"),
        ("round(2.675, 2)", "2.68"),
        ("round(1234, -2)", "1200"),
        ("floor(-1.5)", "-2"),
        ("ceil(-1.5)", "-1"),
        ("trunc(-1.5)", "-1"),
        ("round(sqrt(2) * 100, 2)", "141.42"),
        ("floor(pi * 1000)", "3141"),
        ("min(3, 1, 2)", "1"),
        ("max(3)", "3"),
        ("max(pi, 22/7) * 7", "22"),
        ("log10(1000)", "3"),
        ("log10(0.001)", "-3"),
        ("log2(2^70)", "70"),
        ("ln(1) + exp(0) + sin(0) + cos(0) + atan(0)", "2"),
        ("0 * pi", "0"),
        ("e^0 + sqrt(2)^0 + (pi - pi)^0", "3"),
    ]);
}

#[test]
fn rounded_results_are_right_in_every_digit() {
    // The digits are from mpmath, at 60 digits.
    for (expression, value) in [
        ("pi", "3.141592653589793238462643383279503"),
        ("e", "2.718281828459045235360287471352662"),
        ("sqrt(2)", "1.414213562373095048801688724209698"),
        ("ln(2)", "0.6931471805599453094172321214581766"),
        ("sin(1)", "0.841470984807896506652502321630299"),
        ("cos(1)", "0.5403023058681397174009366074429766"),
        ("exp(1) - e", "0"),
        ("sin(pi)", "0"),
        ("cos(pi)", "-1"),
        ("4 * atan(1) - pi", "0"),
        ("asin(1) * 2 - pi", "0"),
        ("acos(-1) - pi", "0"),
        ("acos(1)", "0"),
        ("acos(cos(pi)) - pi", "0"),
        ("sqrt(pi - pi)", "0"),
        ("exp(1e-100) - 1", "0"),
        ("sin(1e-100)", "1e-100"),
        ("sin(1e-9999) % 1e-9000", "1e-9999"),
        ("sqrt(2)^2", "2"),
        ("(sqrt(2) + 1e40) - 1e40 - sqrt(2)", "0"),
        ("1.05^(1/12)", "1.004074123783648301605419602672107"),
        ("1.0005^3650", "6.199966581936792067338759459978465"),
        ("1.0000000001^1e10", "2.718281828323131143949794001297229"),
        ("sin(1e18)", "-0.9929693207404050762095530172636303"),
        ("exp(-50.5)", "1.169845917706196468585162518454189e-22"),
        ("tan(1.5707)", "10381.32741757139469585117897815421"),
        ("atan(123.456)", "1.562696452097992641892851578114457"),
        ("asin(0.999999)", "1.569382113114672367468249895867096"),
        ("acos(-0.3)", "1.875488980810294127203324652867281"),
        ("log10(7)", "0.8450980400142568307122162585926362"),
        ("2^0.001", "1.000693387462580632537568639303859"),
        ("ln(1e-300)", "-690.7755278982137052053974364053093"),
        ("3^5000", "4.038997629787155339700863409815085e2385"),
        ("10^5000", "1e5000"),
    ] {
        let answer = evaluate(expression).unwrap_or_else(|refusal| panic!("{expression}: {refusal:?}"));
        assert_eq!((answer.value.as_str(), answer.exact), (value, false), "{expression}");
    }
}

#[test]
fn a_short_fraction_comes_with_a_rounded_value() {
    let answer = evaluate("1/3 - 1").unwrap();
    assert_eq!(answer.value, "-0.6666666666666666666666666666666667");
    assert_eq!((answer.exact, answer.fraction.as_deref()), (false, Some("-2/3")));
}

#[test]
fn refusals_say_what_and_where() {
    for (expression, refusal) in [
        ("", "1: a number is missing at the end"),
        ("2 +", "4: a number is missing at the end"),
        ("2 + * 3", "5: a number is missing before `*`"),
        ("(1 + 2", "7: the `(` at character 1 is not closed"),
        ("1 + 2)", "6: `)` without a `(` before it"),
        ("2(3)", "2: an operator is missing before `(`; write * to multiply"),
        ("2 pi", "3: an operator is missing before `pi`; write * to multiply"),
        ("(2 pi)", "4: an operator or `)` is missing before `pi`; write * to multiply"),
        ("1,000", "2: `,` only stands between a function's arguments; write numbers without separators"),
        ("1.2.3", "1: a number with two points"),
        (".", "1: a point without digits"),
        ("50%", "3: `%` is the remainder of a division, not per cent; write / 100"),
        ("2 × 3", "3: `×` has no meaning here; write * to multiply"),
        ("5!", "2: `!` has no meaning here; there are no factorials here"),
        ("$5", "1: `$` has no meaning here; leave units out"),
        ("sqrt 2", "1: `sqrt` needs its argument in parentheses: sqrt(…)"),
        ("sqrt(1, 2)", "1: `sqrt` takes one argument, not 2"),
        ("round(1, 2, 3)", "1: `round` takes 1 to 2 arguments, not 3"),
        ("min()", "5: a number is missing before `)`"),
        ("1 / (2 - 2)", "3: division by zero"),
        ("1 % 0", "3: division by zero"),
        ("0^-1", "2: division by zero"),
        ("1 / sin(pi)", "3: division by a value that cannot be told from zero"),
        ("tan(pi / 2)", "1: the tangent of this angle is infinite"),
        ("sqrt(-1)", "1: a negative number has no real square root"),
        ("ln(pi - pi)", "1: the argument is not known precisely enough"),
        ("ln(0)", "1: zero has no logarithm"),
        ("log2(-8)", "1: a negative number has no real logarithm"),
        ("(-8)^(1/3)", "5: a negative number to a power that is not whole has no real value"),
        ("asin(2)", "1: only numbers from -1 to 1 have a real arc sine"),
        ("round(1, 0.5)", "1: decimals must be a whole number from -1000 to 1000"),
        ("9^9^9", "2: the value is beyond 10^10000, the most this calculator works with"),
        ("9^9^9^9", "4: the value is beyond 10^10000, the most this calculator works with"),
        ("2^-9^9", "2: the value is nearer to zero than 10^-10000, the least this calculator works with"),
        ("exp(1e9)", "1: the value is beyond 10^10000, the most this calculator works with"),
        ("1e10001", "1: a power of ten beyond 10000"),
        (
            "(sqrt(2)^2 - 2 + 1e-80) * 1e100",
            "1: no digit of the value is certain: nearly equal numbers were subtracted. Write it in another way",
        ),
        (
            "(1 + 1/10^76)^(10^76)",
            "1: no digit of the value is certain: nearly equal numbers were subtracted. Write it in another way",
        ),
        ("sin(1e30)", "1: angles beyond 10^19 are not worked with"),
        (
            "floor(sqrt(2)^2)",
            "1: the value is irrational, or was rounded, and lies too close to a whole number to tell the side",
        ),
    ] {
        assert_eq!(refusal_of(expression), refusal, "{expression}");
    }
    assert!(
        refusal_of("log(2)").starts_with("1: `log` is not known. log is taken for both: write ln or log10.")
    );
}

#[test]
fn size_is_bounded() {
    assert_eq!(refusal_of(&"(".repeat(500)), "101: nested more than 100 levels deep");
    assert_eq!(refusal_of(&"-".repeat(500)), "101: nested more than 100 levels deep");
    assert_eq!(refusal_of(&format!("2{}", "^2".repeat(500))), "201: nested more than 100 levels deep");
    assert_eq!(refusal_of(&"1".repeat(2001)), "2001: the expression is longer than 2000 characters");
    assert_eq!(value_of(&format!("1{}", "+1".repeat(999))), "1000");
}

#[test]
fn hundreds_of_long_fractions_are_rounded_on_the_way() {
    let sum = |count: usize| vec!["7^2300/3^4000"; count].join("+");
    let few = evaluate(&format!("({}) * 3^4000 - 10 * 7^2300", sum(10))).unwrap();
    assert_eq!((few.value.as_str(), few.exact), ("0", true));
    let many = evaluate(&sum(140)).unwrap();
    assert_eq!((many.value.as_str(), many.exact), ("2.435573217946639930013635723966103e37", false));
    let whole = evaluate(&format!("({}) / 140 * 3^4000 / 7^2300", sum(138))).unwrap();
    assert_eq!((whole.value.as_str(), whole.exact), ("0.9857142857142857142857142857142857", false));
    assert_eq!(value_of(&format!("0 * ({}) + (-2)^3", sum(138))), "-8");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics(expression in "[-+*/%^().,e0-9 a-z×]{0,40}") {
        let _ = evaluate(&expression);
    }

    #[test]
    fn nothing_that_parses_panics(expression in expressions()) {
        let _ = evaluate(&expression);
    }

    #[test]
    fn numbers_are_read_in_lowest_terms(
        factor in 0_u64..1000, twos in 0_u32..20, fives in 0_u32..12, tens in 0_u32..40,
    ) {
        let digits = factor * 2_u64.pow(twos) * 5_u64.pow(fives);
        let expected = BigRational::new(BigInt::from(digits), BigInt::from(10).pow(tens));
        let tokens = read_tokens(&format!("{digits}e-{tens}")).unwrap();
        let Token::Number(read) = &tokens[0].1 else { panic!("{tokens:?}") };
        prop_assert_eq!((read.numer(), read.denom()), (expected.numer(), expected.denom()));
    }

    #[test]
    fn whole_arithmetic_is_right(a in -1_000_000_i64..1_000_000, b in -1_000_000_i64..1_000_000, c in 1_i64..1000) {
        let ours = value_of(&format!("({a} + {b}) * ({a} - {b}) % {c}"));
        prop_assert_eq!(ours, ((a + b) * (a - b)).rem_euclid(c).to_string());
    }

    #[test]
    fn a_fraction_times_its_divisor_is_whole_again(a in -1_000_000_i64..1_000_000, b in 1_i64..1_000_000) {
        prop_assert_eq!(value_of(&format!("{a} / {b} * {b}")), a.to_string());
    }

    #[test]
    fn functions_agree_with_the_processor(x in -50.0..50.0_f64) {
        let cases: &[Case] = &[
            ("sin", f64::sin), ("cos", f64::cos), ("atan", f64::atan), ("exp", f64::exp), ("cbrt", f64::cbrt),
            ("floor", f64::floor),
        ];
        for (name, function) in cases {
            let (ours, theirs) = (value_of(&format!("{name}({x})")).parse::<f64>().unwrap(), function(x));
            let difference = (ours - theirs).abs() / theirs.abs().max(1.0);
            prop_assert!(difference <= 1e-12, "{name}({x}): {ours}, {theirs}");
        }
        let y = x.abs() + f64::MIN_POSITIVE;
        let cases: &[Case] =
            &[("sqrt", f64::sqrt), ("ln", f64::ln), ("log10", f64::log10), ("log2", f64::log2)];
        for (name, function) in cases {
            let (ours, theirs) = (value_of(&format!("{name}({y})")).parse::<f64>().unwrap(), function(y));
            let difference = (ours - theirs).abs() / theirs.abs().max(1.0);
            prop_assert!(difference <= 1e-12, "{name}({y}): {ours}, {theirs}");
        }
    }

    #[test]
    fn identities_hold_to_the_last_certain_digit(x in -1000.0..1000.0_f64) {
        let y = x.abs() + 1e-300;
        for zero in [
            format!("sin({x})^2 + cos({x})^2 - 1"),
            format!("exp(ln({y})) - {y}"),
            format!("ln(exp({x})) - {x}"),
            format!("sqrt({y})^2 - {y}"),
            format!("tan(atan({x})) - {x}"),
            format!("sin(2 * ({x})) - 2 * sin({x}) * cos({x})"),
            format!("{y}^1.5 - {y} * sqrt({y})"),
            "pi^3 - pi * pi * pi".to_owned(),
        ] {
            let value = value_of(&zero);
            prop_assert_eq!(value, "0", "{}", zero);
        }
    }
}

/// A function of ours and the processor's.
type Case = (&'static str, fn(f64) -> f64);

/// Expressions that follow the grammar, with numbers of all sizes.
fn expressions() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        (0_u32..100).prop_map(|whole| whole.to_string()),
        (0.0..10.0_f64).prop_map(|real| real.to_string()),
        (0_u32..10, -9999_i32..9999).prop_map(|(digit, power)| format!("{digit}e{power}")),
        Just("pi".to_owned()),
        Just("e".to_owned()),
    ];
    number.prop_recursive(6, 24, 3, |inner| {
        let functions = prop::sample::select(vec![
            "sqrt", "cbrt", "abs", "round", "floor", "ceil", "trunc", "exp", "ln", "log10", "log2", "sin",
            "cos", "tan", "asin", "acos", "atan",
        ]);
        let operators = prop::sample::select(vec!["+", "-", "*", "/", "%", "^", "^-"]);
        prop_oneof![
            (inner.clone(), operators, inner.clone())
                .prop_map(|(x, operator, y)| format!("({x} {operator} {y})")),
            (functions, inner.clone()).prop_map(|(function, x)| format!("{function}({x})")),
            (inner.clone(), inner.clone()).prop_map(|(x, y)| format!("max({x}, {y})")),
            inner.prop_map(|x| format!("-({x})")),
        ]
    })
}
