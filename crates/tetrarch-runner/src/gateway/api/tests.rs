//! Which requests are calls, what they may cost, and what answers say that they took.

use super::*;

fn read(api: ModelApi, body: &Value, most: Option<u64>) -> Result<ModelCall, String> {
    ModelCall::read(api, "/v1beta/models/g:generateContent", body.to_string().as_bytes(), most, 500)
}

#[test]
fn only_calls_of_models_and_what_is_free_are_passed_on() {
    let call = |api| Some(ModelEndpointKind::Call(api));
    for (is_post, path, expected) in [
        (true, "/v1/messages", call(ModelApi::Messages)),
        (true, "/messages", call(ModelApi::Messages)),
        (true, "/v1/messages/count_tokens", Some(ModelEndpointKind::Free)),
        (true, "/v1/chat/completions", call(ModelApi::Chat)),
        (true, "/v1/responses", call(ModelApi::Responses)),
        (true, "/v1beta/models/gemini-2.5-pro:generateContent", call(ModelApi::Gemini)),
        (true, "/v1beta/models/g:streamGenerateContent", call(ModelApi::Gemini)),
        (true, "/v1beta/models/g:countTokens", Some(ModelEndpointKind::Free)),
        (false, "/v1/models", Some(ModelEndpointKind::Free)),
        (false, "/v1/models/m-1", Some(ModelEndpointKind::Free)),
        (false, "/v1/messages", None),
        (true, "/v1/messages/batches", None),
        (true, "/v1/files", None),
        (true, "/v1/responses/r1/cancel", None),
        (true, "/v1/../v1/messages", None),
        (true, "/v1/models/%2e%2e:generateContent", None),
        (true, "/v1/models/..:generateContent", None),
        (true, "/v1/models/a/b:generateContent", None),
        (true, "/v1beta/models/g:batchGenerateContent", None),
        (true, "/v1/v1/messages", None),
        (true, "//messages", None),
        (true, "", None),
    ] {
        assert_eq!(ModelEndpointKind::of(is_post, path), expected, "{is_post} {path}");
    }
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
        assert_eq!(call.bytes(), body.to_string().into_bytes(), "it is sent as it came");
    }
    assert_eq!(read(ModelApi::Chat, &json!({"n": 16}), None).unwrap().worst().output, 16 * 500);
    assert!(read(ModelApi::Chat, &json!({"n": 17}), None).unwrap_err().contains("at most 16"));
}

#[test]
fn answer_is_limited_where_the_request_says_more_or_nothing() {
    let sent = |api, body: Value| {
        let call = read(api, &body, Some(100)).unwrap();
        serde_json::from_slice::<Value>(&call.bytes()).unwrap()
    };
    assert_eq!(sent(ModelApi::Messages, json!({"max_tokens": 101}))["max_tokens"], 100);
    assert_eq!(sent(ModelApi::Messages, json!({"max_tokens": 99}))["max_tokens"], 99);
    assert_eq!(sent(ModelApi::Messages, json!({}))["max_tokens"], 100);
    let chat = sent(ModelApi::Chat, json!({"max_tokens": 300}));
    assert_eq!((&chat["max_tokens"], &chat["max_completion_tokens"]), (&json!(100), &Value::Null));
    assert_eq!(sent(ModelApi::Chat, json!({}))["max_completion_tokens"], 100);
    assert_eq!(sent(ModelApi::Responses, json!({}))["max_output_tokens"], 100);
    assert_eq!(sent(ModelApi::Gemini, json!({}))["generationConfig"]["maxOutputTokens"], 100);
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
    let cut = ModelCall::read(ModelApi::Chat, "", b"{", None, 1).unwrap_err();
    assert!(cut.contains("not JSON"), "{cut}");
}

#[test]
fn chat_stream_is_asked_to_say_what_it_took() {
    let sent = |body: Value| read(ModelApi::Chat, &body, None).unwrap().body;
    assert_eq!(sent(json!({"stream": true}))["stream_options"]["include_usage"], true);
    assert_eq!(sent(json!({"stream": false})).get("stream_options"), None);
}

#[test]
fn usage_is_read_from_streams_of_each_api() {
    let messages = [
        r#"{"type":"message_start","message":{"usage":{"input_tokens":7,"cache_creation_input_tokens":2,"cache_read_input_tokens":4,"output_tokens":1}}}"#,
        r#"{"type":"message_delta","usage":{"output_tokens":9}}"#,
        r#"{"type":"message_stop"}"#,
    ];
    let chat = [
        r#"{"choices":[{"delta":{"content":"x"}}],"usage":null}"#,
        r#"{"choices":[],"usage":{"prompt_tokens":13,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}}"#,
        "[DONE]",
    ];
    let responses = [
        r#"{"type":"response.created","response":{"usage":null}}"#,
        r#"{"type":"response.completed","response":{"usage":{"input_tokens":13,"input_tokens_details":{"cached_tokens":4},"output_tokens":9}}}"#,
    ];
    let gemini = [
        r#"{"candidates":[{}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":1}}"#,
        r#"{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"toolUsePromptTokenCount":3,"cachedContentTokenCount":4,"candidatesTokenCount":7,"thoughtsTokenCount":2}}"#,
    ];
    let rows: [(ModelApi, &[&str]); 4] = [
        (ModelApi::Messages, &messages),
        (ModelApi::Chat, &chat),
        (ModelApi::Responses, &responses),
        (ModelApi::Gemini, &gemini),
    ];
    for (api, events) in rows {
        for part in [1, 7, 10_000] {
            let mut reader = UsageReader::new(api);
            let all: String =
                events.iter().map(|it| format!("event: x\r\ndata: {it}\r\n\r\n")).collect();
            for chunk in all.as_bytes().chunks(part) {
                reader.feed(chunk);
            }
            let expected = Tokens { input: 13, cached: 4, output: 9 };
            assert_eq!(
                (reader.tokens, reader.is_over),
                (Some(expected), true),
                "{api:?} by {part}"
            );
            assert_eq!(reader.bytes, all.len());
        }
    }
}

#[test]
fn whole_answer_and_an_endless_line_are_read_within_bounds() {
    let mut reader = UsageReader::new(ModelApi::Chat);
    reader.feed_whole(br#"{"usage":{"prompt_tokens":3,"completion_tokens":2}}"#);
    assert_eq!(reader.tokens, Some(Tokens { input: 3, cached: 0, output: 2 }));
    let mut reader = UsageReader::new(ModelApi::Chat);
    for _ in 0..40 {
        reader.feed(&vec![b'x'; 64 * 1024]);
    }
    assert!(reader.line.len() <= LINE_MAX);
    reader.feed(b"\ndata: [DONE]\n");
    assert!(reader.is_over, "what follows it is read");
}
