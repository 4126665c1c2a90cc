//! Which requests are calls, and what answers say that they took.

use super::*;

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
            let is_over = api != ModelApi::Gemini;
            assert_eq!(
                (reader.tokens, reader.is_over),
                (Some(expected), is_over),
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
    let mut reader = UsageReader::new(ModelApi::Gemini);
    reader.feed_whole(br#"[{"usageMetadata":{"promptTokenCount":3}},{"usageMetadata":{"candidatesTokenCount":2}}]"#);
    assert_eq!(reader.tokens, Some(Tokens { input: 3, cached: 0, output: 2 }));
    let mut reader = UsageReader::new(ModelApi::Chat);
    for _ in 0..40 {
        reader.feed(&vec![b'x'; 64 * 1024]);
    }
    assert!(reader.line.len() <= LINE_MAX);
    reader.feed(b"\ndata: [DONE]\n");
    assert!(reader.is_over, "what follows it is read");
}
