//! Queries and what they yield.

use proptest::prelude::*;

use crate::{Question, csv_query};

const SALES: &str = "City,Product,Unit price,Amount,Day
Berlin,Tea,2.50,4,2026-01-02
Paris,Tea,3.00,1,2026-01-02
Berlin,Coffee,0.10,3,2026-01-03
Paris,Coffee,0.20,,2026-02-01
\"Rome, Italy\",Tea,2.50,2,2026-02-01
";

fn ask(sql: &str) -> Result<String, String> {
    let answer = csv_query(Question { csv: SALES.to_owned(), sql: sql.to_owned() });
    answer.map(|answer| answer.to_json()).map_err(|failure| failure.message)
}

#[track_caller]
fn rows(sql: &str, expected: &str) {
    let answer: serde_json::Value = serde_json::from_str(&ask(sql).unwrap()).unwrap();
    assert_eq!(answer["rows"].to_string(), expected, "{sql}");
}

#[test]
fn rows_are_chosen_sorted_and_cut() {
    assert_eq!(
        ask("SELECT * FROM csv WHERE City = 'Paris' AND Amount > 0;").unwrap(),
        r#"{"columns":["City","Product","Unit price","Amount","Day"],"rows":[["Paris","Tea",3.00,1,"2026-01-02"]]}"#
    );
    rows(
        "select city from t where \"Unit price\" between 0.1 and 0.2 order by 1 desc",
        r#"[["Paris"],["Berlin"]]"#,
    );
    rows(
        "select city c from t order by unit_price desc, c limit 2 offset 1",
        r#"[["Berlin"],["Rome, Italy"]]"#,
    );
    rows("select distinct product from t", r#"[["Tea"],["Coffee"]]"#);
    rows("select t.amount from csv t where amount is null or t.day like '2026-02%'", "[[null],[2]]");
    rows("select amount from t where not amount in (1, 2, 4)", "[[3]]");
    rows("select amount from t where amount <> 4 order by amount limit 0, 1", "[[1]]");
    rows("select amount from t where amount = 4 limit 99999999999999999999999", "[[4]]");
    rows("select 1 + 2 * 3 - -4 % 3, 7 / 2, 1 / 0, 'a' || 1 from t limit 1", r#"[[8,3.5,null,"a1"]]"#);
    rows(
        "select case product when 'Tea' then 'T' else upper(city) end x from t limit 3",
        r#"[["T"],["T"],["BERLIN"]]"#,
    );
}

#[test]
fn rows_are_grouped_and_sums_are_exact() {
    assert_eq!(
        ask("select city, sum(unit_price * amount) as total, count(*) from t group by city having total > 3 order by total desc").unwrap(),
        r#"{"columns":["City","total","count(*)"],"rows":[["Berlin",10.30,2],["Rome, Italy",5.00,1]]}"#
    );
    rows(
        "select count(amount), count(distinct city), avg(amount), min(day), max(city), median(amount) from t",
        r#"[[4,3,2.5,"2026-01-02","Rome, Italy",2.5]]"#,
    );
    rows("select sum(unit_price) from t where product = 'Coffee'", "[[0.3]]");
    rows(
        "select substr(day, 1, 7) as month, sum(amount) from t group by month order by month",
        r#"[["2026-01",8],["2026-02",2]]"#,
    );
    rows("select count(*), sum(amount) from t where city = 'Oslo'", "[[0,null]]");
    rows("select city from t group by 1 order by count(*) desc, city limit 1", r#"[["Berlin"]]"#);
    rows("select max(amount) - min(amount) from t having count(*) > 1", "[[3]]");
    // The alias of an aggregate may be the name of the column that it is of.
    rows(
        "select city, sum(amount) as amount from t group by city having sum(amount) > 1 order by sum(amount)",
        r#"[["Rome, Italy",2],["Berlin",7]]"#,
    );
    rows("select amount * 2 as amount from t group by amount having sum(amount) > 3", "[[8]]");
    rows("select amount * 2 as twice from t group by twice having sum(twice) > 6", "[[8]]");
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    for (sql, reason) in [
        ("", "expected SELECT; a query only reads, and there is one table, found the end"),
        ("delete from t", "expected SELECT; a query only reads, and there is one table, found `delete`"),
        (
            "select ctiy from t",
            "there is no column `ctiy`: did you mean `City`? The columns are `City`, `Product`, `Unit price`, `Amount`, `Day`",
        ),
        (
            "select city from t where city = \"Paris\"",
            "there is no column `Paris`. The columns are `City`, `Product`, `Unit price`, `Amount`, `Day`; a text stands in single quotes: 'Paris'",
        ),
        ("select city from a join b on 1", "there is no JOIN here: the query is one SELECT about one table"),
        ("select city from a, b", "there is one table here; nothing can be joined"),
        (
            "select city from t union select 1",
            "there is no UNION here: the query is one SELECT about one table",
        ),
        ("select city from (select 1)", "there are no subqueries here: FROM takes a name"),
        (
            "select city, sum(amount) from t",
            "`City` has many values in a group: add it to GROUP BY, or put it into an aggregate such as min or max",
        ),
        (
            "select city from t where count(*) > 1",
            "WHERE is about single rows: move the condition on an aggregate to HAVING",
        ),
        ("select city from t having city = 'x'", "HAVING is about groups: write WHERE, or add GROUP BY"),
        (
            "select city from t group by count(*)",
            "GROUP BY takes what has a value in every row, not an aggregate",
        ),
        ("select sum(max(amount)) from t", "an aggregate cannot be of another one"),
        ("select round(1, 2, 3) from t", "`round` takes 1 to 2 arguments, not 3"),
        (
            "select row_number() over (order by day) from t",
            "there is no function `row_number`, only: count, sum, avg",
        ),
        ("select sum(amount) over () from t", "there are no window functions here (OVER)"),
        ("select city from t where amount = 'a", "what begins with ' has no ' at its end"),
        ("select city from t limit x", "expected a whole number of rows, found `x`"),
        ("select city from t; drop table t", "there is more than one statement; run one at a time"),
        ("select city from t where 1 < 2 < 3", "comparisons cannot be chained: join two of them with AND"),
        ("select city from t order by 7", "there is no column 7 in the answer, which has 1"),
        ("select city from t group city", "expected by, found `city`"),
        ("select city from t where limit 1", "expected a column, value or function, found `limit`"),
        (
            "select sum(city) from t",
            "sum needs numbers and got `Berlin`: use sum(number(…)) for texts such as `1,250 €`, or leave such rows out with WHERE",
        ),
        ("select city + 1 from t", "`+` needs numbers and got `Berlin`"),
        (
            "select 79228162514264337593543950335 * 10 from t",
            "`79228162514264337593543950335 * 10` has more than 28 digits",
        ),
    ] {
        let refusal = ask(sql).unwrap_err();
        let told = refusal.split_once(" of the query: ").map_or(refusal.as_str(), |(_, told)| told);
        assert!(told.starts_with(reason), "{sql}\n{told}\n{reason}");
    }
}

#[test]
fn a_decimal_comma_is_not_taken_for_one_between_thousands() {
    for (text, reason) in [
        ("12,50 €", "number reads commas as thousands, and in `12,50 €` there is another"),
        ("1.250,500", "number reads commas as thousands, and in `1.250,500`"),
        ("0,125", "number reads commas as thousands, and in `0,125`"),
        ("a,b", "number cannot read `a,b`"),
    ] {
        let refusal = ask(&format!("select number('{text}') from t")).unwrap_err();
        assert!(refusal.starts_with(reason), "{refusal}");
    }
}

#[test]
fn refusals_say_where_and_queries_are_bounded() {
    assert!(ask("select ctiy from t").unwrap_err().starts_with("at character 8 of the query: "));
    let deep = format!("select {}1{} from t", "(".repeat(60), ")".repeat(60));
    assert!(ask(&deep).unwrap_err().ends_with("the expression is nested more than 50 deep"));
    let long = format!("select 1{} from t", " + 1".repeat(301));
    assert!(ask(&long).unwrap_err().ends_with("the query has more than 300 operators"));
}

#[test]
fn functions_have_their_values() {
    for (expression, value) in [
        ("abs(-2)", "2"),
        ("round(2.345, 2)", "2.35"),
        ("round(-2.5)", "-3"),
        ("coalesce(null, 'a')", "\"a\""),
        ("nullif(1, 1.0)", "null"),
        ("length('né')", "2"),
        ("substr('hello', 2, 3)", "\"ell\""),
        ("substr('hello', -2)", "\"lo\""),
        ("trim(' a ') || lower('B')", "\"ab\""),
        ("replace('aXbX', 'X', '--')", "\"a--b--\""),
        ("number('1,250.50 €') + 1", "1251.5"),
        ("number('-$12,34,567')", "-1234567"),
        ("number(replace(replace('1.250,50', '.', ''), ',', '.'))", "1250.5"),
        ("cast('7.9' as integer)", "7"),
        ("cast(7 as varchar(10))", "\"7\""),
        ("null = null", "null"),
        ("null or 1 = 1", "true"),
        ("not (1 = 1 and null)", "null"),
        ("2 not between 3 and 4", "true"),
        ("1 in (2, null)", "null"),
        ("'5' = 5", "true"),
        ("1 / 3, 100 / 3, -1 / 30", "0.333333333333,33.333333333333,-0.0333333333333"),
        ("0.0000000000001 / 2", "5e-14"),
    ] {
        rows(&format!("select {expression} from t limit 1"), &format!("[[{value}]]"));
    }
}

#[test]
fn long_answers_say_how_long_they_are() {
    let csv = format!("n\n{}", "1\n".repeat(1500));
    let answer = csv_query(Question { csv, sql: "select n from t".to_owned() }).unwrap().to_json();
    assert!(answer.ends_with(r#""truncated_from":1500}"#), "{}", &answer[answer.len() - 60..]);
}

proptest! {
    #[test]
    fn any_query_ends(sql in "(select|from|where|group by|order by|,|\\*|city|sum|count|\\(|\\)|'a'|1|=|<|and|not|in|case|when|then|end|like|is| ){0,40}") {
        drop(ask(&format!("select {sql}")));
    }

    #[test]
    fn any_csv_is_read(csv in "(a|1|,|\"|\n|;|é){0,60}") {
        drop(csv_query(Question { csv, sql: "select * from t".to_owned() }));
    }
}
