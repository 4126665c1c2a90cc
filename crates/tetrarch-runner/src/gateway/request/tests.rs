//! What calls may cost and reach, as requests say it.

use super::*;

const PATH: &str = "/v1beta/models/g:generateContent";

fn terms(output_max: Option<u64>) -> CallTerms {
    CallTerms { output_max, assumed: 500, is_open: false }
}

fn read(api: ModelApi, body: &Value, most: Option<u64>) -> Result<ModelCall, String> {
    ModelCall::read(api, PATH, body.to_string().as_bytes(), terms(most))
}

fn sent(mut call: ModelCall) -> Value {
    serde_json::from_slice(&call.take_bytes()).unwrap()
}

#[test]
fn worst_case_is_the_body_and_the_longest_answer_of_each() {
    let rows = [
        (ModelApi::Messages, json!({"model": "m", "max_tokens": 9}), 9),
        (ModelApi::Chat, json!({"model": "m", "max_tokens": 9, "n": 3}), 27),
        (ModelApi::Chat, json!({"model": "m", "max_completion_tokens": 9, "max_tokens": 7}), 9),
        (ModelApi::Responses, json!({"model": "m", "max_output_tokens": 9}), 9),
        (
            ModelApi::Gemini,
            json!({"generationConfig": {"maxOutputTokens": 9, "candidateCount": 2}}),
            18,
        ),
        (ModelApi::Responses, json!({"model": "m"}), 500),
    ];
    for (api, body, output) in rows {
        let call = read(api, &body, None).unwrap();
        let input = tokens_of(body.to_string().len());
        assert_eq!(call.worst(), Tokens { input, cached: 0, output }, "{body}");
        assert_eq!(call.model, if api == ModelApi::Gemini { "g" } else { "m" });
        assert_eq!(sent(call), body, "it is sent as it came");
    }
    assert_eq!(read(ModelApi::Chat, &json!({"n": 16}), None).unwrap().worst().output, 16 * 500);
    assert!(read(ModelApi::Chat, &json!({"n": 17}), None).unwrap_err().contains("at most 16"));
}

#[test]
fn answer_is_limited_where_the_request_says_more_or_nothing() {
    let sent = |api, body: Value| super::tests::sent(read(api, &body, Some(100)).unwrap());
    assert_eq!(sent(ModelApi::Messages, json!({"max_tokens": 101}))["max_tokens"], 100);
    assert_eq!(sent(ModelApi::Messages, json!({"max_tokens": 99}))["max_tokens"], 99);
    assert_eq!(sent(ModelApi::Messages, json!({}))["max_tokens"], 100);
    let chat = sent(ModelApi::Chat, json!({"max_tokens": 300}));
    assert_eq!((&chat["max_tokens"], &chat["max_completion_tokens"]), (&json!(100), &Value::Null));
    assert_eq!(sent(ModelApi::Chat, json!({}))["max_completion_tokens"], 100);
    assert_eq!(sent(ModelApi::Responses, json!({}))["max_output_tokens"], 100);
    for body in [json!({}), json!({"generationConfig": null})] {
        assert_eq!(sent(ModelApi::Gemini, body)["generationConfig"]["maxOutputTokens"], 100);
    }
    let thinks = json!({"max_tokens": 300, "thinking": {"type": "enabled", "budget_tokens": 299}});
    assert_eq!(sent(ModelApi::Messages, thinks)["thinking"]["budget_tokens"], 99);
}

#[test]
fn call_that_does_not_fit_is_lowered_to_a_useful_answer_at_least() {
    let mut call =
        read(ModelApi::Messages, &json!({"max_tokens": 4 * OUTPUT_MIN + 1}), None).unwrap();
    let mut outputs = Vec::new();
    while call.lower() {
        outputs.push(call.worst().output);
    }
    assert_eq!(outputs, [2 * OUTPUT_MIN, OUTPUT_MIN]);
    assert_eq!(call.worst().output, OUTPUT_MIN);
}

#[test]
fn request_of_unknown_cost_is_refused() {
    for (body, words) in [
        (json!({"background": true}), "`background`"),
        (json!({"previous_response_id": "r"}), "`previous_response_id`"),
        (json!({"conversation": {"id": "c"}}), "`conversation`"),
        (json!([]), "not a JSON object"),
    ] {
        assert!(read(ModelApi::Responses, &body, None).unwrap_err().contains(words), "{body}");
    }
    let plain = json!({"background": false, "previous_response_id": null});
    assert!(read(ModelApi::Responses, &plain, None).is_ok());
    let cut = ModelCall::read(ModelApi::Chat, "", b"{", terms(None)).unwrap_err();
    assert!(cut.contains("not a JSON object"), "{cut}");
}

#[test]
fn chat_stream_is_asked_to_say_what_it_took() {
    let sent = |body: Value| sent(read(ModelApi::Chat, &body, None).unwrap());
    assert_eq!(sent(json!({"stream": true}))["stream_options"]["include_usage"], true);
    assert_eq!(sent(json!({"stream": false})).get("stream_options"), None);
}

#[test]
fn what_decides_on_the_cost_is_read_strictly() {
    use ModelApi::{Chat, Gemini, Messages, Responses};
    for (api, body, words) in [
        (Chat, json!({"n": "16"}), "`n` is no whole number"),
        (Chat, json!({"n": 16.0}), "`n` is no whole number"),
        (Chat, json!({"N": 16}), "`N` is not passed on; write `n`"),
        (Chat, json!({"max_tokens": "9"}), "`max_tokens` is no"),
        (Chat, json!({"max_tokens": -1}), "`max_tokens` is no"),
        (Chat, json!({"MaxTokens": 9}), "write `max_tokens`"),
        (Chat, json!({"stream": 1}), "`stream` is neither"),
        (Chat, json!({"stream": true, "stream_options": "x"}), "`stream_options` is no object"),
        (Chat, json!({"service_tier": "priority"}), "`service_tier`"),
        (Chat, json!({"model": "m".repeat(MODEL_BYTES_MAX + 1)}), "name has more than"),
        (Messages, json!({"max-tokens": 9}), "write `max_tokens`"),
        (Responses, json!({"prompt": {"id": "p"}}), "`prompt`"),
        (Gemini, json!({"generation_config": {}}), "write `generationConfig`"),
        (Gemini, json!({"generationConfig": 1}), "`generationConfig` is no object"),
        (Gemini, json!({"generationConfig": {"candidate_count": 8}}), "write `candidateCount`"),
        (Gemini, json!({"generationConfig": {"max_output_tokens": 8}}), "write `maxOutputTokens`"),
        (Gemini, json!({"generationConfig": {"candidateCount": "8"}}), "`candidateCount` is no"),
        (Gemini, json!({"cachedContent": "c"}), "`cachedContent`"),
    ] {
        let refused = read(api, &body, None).unwrap_err();
        assert!(refused.contains(words), "{body}: {refused}");
    }
    let both = json!({"max_completion_tokens": 1, "max_tokens": 1_000_000});
    assert_eq!(read(Chat, &both, None).unwrap().worst().output, 1_000_000);
    let limited = sent(read(Chat, &both, Some(100)).unwrap());
    assert_eq!(limited, json!({"max_completion_tokens": 1, "max_tokens": 100}));
    let longest = json!({"model": "m".repeat(MODEL_BYTES_MAX)});
    assert!(read(Chat, &longest, None).is_ok());
}

#[test]
fn run_without_a_network_has_nothing_fetched_by_its_provider() {
    use ModelApi::{Chat, Gemini, Messages, Responses};
    let said = |content: Value| json!({"messages": [{"role": "user", "content": [content]}]});
    for (api, body, named) in [
        (Messages, json!({"tools": [{"type": "web_search_20250305"}]}), "tool `web_search_2"),
        (Messages, json!({"mcp_servers": [{"url": "https://x"}]}), "`mcp_servers`"),
        (Messages, said(json!({"type": "image", "source": {"type": "url"}})), "`source`"),
        (Chat, json!({"web_search_options": {}}), "`web_search_options`"),
        (Chat, said(json!({"image_url": {"url": "https://x"}})), "`image_url`"),
        (Responses, json!({"tools": [{"type": "mcp", "server_url": "https://x"}]}), "tool `mcp`"),
        (Responses, json!({"input": [{"type": "item_reference", "id": "i"}]}), "item_reference"),
        (Responses, json!({"input": [{"content": [{"file_url": "https://x"}]}]}), "`file_url`"),
        (Gemini, json!({"tools": [{"googleSearch": {}}]}), "tool `googleSearch`"),
        (Gemini, json!({"contents": [{"parts": [{"fileData": {}}]}]}), "`fileData`"),
    ] {
        let refused = read(api, &body, None).unwrap_err();
        assert!(refused.contains(named) && refused.contains("no network"), "{body}: {refused}");
        let open = CallTerms { is_open: true, ..terms(None) };
        assert!(ModelCall::read(api, PATH, body.to_string().as_bytes(), open).is_ok(), "{body}");
    }
    let data = "data:image/png;base64,AA==";
    for (api, body) in [
        (Messages, json!({"tools": [{"name": "f"}, {"type": "bash_20250124"}]})),
        (Messages, said(json!({"type": "image", "source": {"type": "base64"}}))),
        (Messages, said(json!({"type": "tool_use", "input": {"image_url": "https://x"}}))),
        (Chat, said(json!({"image_url": {"url": data}}))),
        (Chat, json!({"tools": [{"type": "function"}]})),
        (Responses, json!({"input": [{"image_url": data}], "tools": [{"type": "local_shell"}]})),
        (Gemini, json!({"contents": [{"parts": [{"functionCall": {"args": {"file_id": "f"}}}]}]})),
        (
            Gemini,
            json!({"contents": [{"parts": [{"functionResponse": {"response": {"file_id": "f"}}}]}]}),
        ),
        (Gemini, json!({"tools": [{"functionDeclarations": []}]})),
    ] {
        assert!(read(api, &body, None).is_ok(), "{body}: {:?}", read(api, &body, None));
    }
}

#[test]
fn request_of_too_many_values_is_refused_before_it_is_read() {
    let body = |values: usize| format!(r#"{{"x": [{}0]}}"#, "0,".repeat(values));
    // The object and the list, and a comma for each value but one.
    let read = |values: usize| {
        ModelCall::read(ModelApi::Chat, PATH, body(values - 2).as_bytes(), terms(None))
    };
    assert!(read(VALUES_MAX).is_ok());
    assert!(read(VALUES_MAX + 1).unwrap_err().contains("more than 500000 values"));
}
