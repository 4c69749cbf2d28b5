//! Who gets kept bytes as they are, who gets them parsed, and which of them are a miss.

use super::*;

#[tokio::test]
async fn whoever_passes_a_result_on_gets_the_bytes_that_are_kept() {
    let bench = bench(ScriptedInvoke::answering("4"));
    let ask = || bench.cached.invoke_for_json(Ask::new("r".into(), "2+2".into()));
    let JsonAnswer::Parsed(fresh) = ask().await.unwrap() else { panic!("nothing is kept") };
    until_written().await;
    let key = bench.cache.kept()[0].0.clone();
    let kept = bench.cache.get(&key).await.unwrap().unwrap();
    assert_eq!(kept, serde_json::to_vec(&*fresh.result).unwrap());
    let JsonAnswer::Written(passed_on) = ask().await.unwrap() else { panic!("it is parsed") };
    assert_eq!(passed_on.as_bytes().as_ptr(), kept.as_ptr(), "it is copied");
    // Whoever reads it has it parsed, also of one flight with whoever does not.
    let (json, parsed) = tokio::join!(ask(), bench.ask("2+2"));
    assert!(matches!(json, Ok(JsonAnswer::Written(_))), "{json:?}");
    assert_eq!(parsed.unwrap().result, fresh.result);
    assert_eq!(bench.noted(), [CacheUse::Miss, CacheUse::Hit, CacheUse::Hit, CacheUse::Shared]);
    assert_eq!(bench.agent.asked().len(), 1);
}

#[tokio::test]
async fn what_is_kept_in_another_form_is_parsed_and_what_cannot_be_is_a_miss() {
    let bench = bench(ScriptedInvoke::answering("4"));
    let fresh = bench.ask("2+2").await.unwrap();
    let key = bench.cache.kept()[0].0.clone();
    let json = serde_json::to_string(&*fresh.result).unwrap();
    for (kept, is_hit) in [
        (json.clone(), true),
        (json.replace(",\"", ", \""), true),
        (json.replace("\"completed\"", "\"max_tokens\""), true),
        (json.replace("\"iterations\":1,", ""), false),
        (json.replace("\"iterations\":1,", "\"iterations\":-1,"), false),
        (json[..json.len() - 1].to_owned(), false),
        (format!("{json}}}"), false),
        (String::new(), false),
        ("{}".into(), false),
    ] {
        bench.cache.put(&key, kept.clone().into(), SECOND).await.unwrap();
        assert_eq!(bench.ask("2+2").await.unwrap().cached, Some(is_hit), "{kept}");
        bench.cache.put(&key, kept.clone().into(), SECOND).await.unwrap();
        let cached = match bench.cached.invoke_for_json(Ask::new("r".into(), "2+2".into())).await.unwrap() {
            JsonAnswer::Parsed(answer) => answer.cached,
            JsonAnswer::Written(_) => Some(true),
        };
        until_written().await;
        assert_eq!(cached, Some(is_hit), "{kept}");
    }
}
