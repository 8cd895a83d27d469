"""Chats, tokenisation and what else an OpenAI client may ask an engine; answers that depend on the prompt alone."""
import json

import pytest
import requests

TIMEOUT_S = 20
CONVERSATION = [{'role': 'system', 'content': 'be brief'}, {'role': 'user', 'content': 'wörld?'}]


def post(engine, path, body, index=0, headers=None):
    return requests.post(engine.engines[index]['http'] + path, json=body, timeout=TIMEOUT_S, headers=headers,
                         stream=bool(body.get('stream')))


def chat(engine, index=0, **members):
    return post(engine, '/v1/chat/completions', {'model': 'sim', 'messages': CONVERSATION, 'max_tokens': 6, **members},
                index)


def chunks_of(response):
    lines = [line.decode() for line in response.iter_lines() if line]
    assert lines[-1] == 'data: [DONE]'
    return [json.loads(line[len('data: '):]) for line in lines[:-1]]


def test_every_engine_and_form_gives_the_same_answer_to_a_prompt(start_engine):
    engine = start_engine('--engines', '2', '--service', 'batching')
    prompt = list(range(1000, 1040))
    texts = {engine.complete(prompt, index, max_tokens=20).json()['choices'][0]['text'] for index in (0, 1, 0)}
    streamed = chunks_of(engine.complete(prompt, 1, max_tokens=20, stream=True))
    texts.add(''.join(c['choices'][0]['text'] for c in streamed))
    other_process = start_engine('--service', 'fifo')
    texts.add(other_process.complete(prompt, max_tokens=20).json()['choices'][0]['text'])
    assert len(texts) == 1 and len(texts.pop()) == 20
    assert engine.complete(prompt[:-1], max_tokens=20).json()['choices'][0]['text'] not in texts


def test_chat_answers_with_a_message(start_engine):
    engine = start_engine()
    body = chat(engine).json()
    assert body['object'] == 'chat.completion' and body['id'].startswith('chatcmpl-')
    [choice] = body['choices']
    assert choice['message']['role'] == 'assistant' and len(choice['message']['content']) == 6
    assert choice['finish_reason'] == 'length'
    tokens = post(engine, '/tokenize', {'model': 'sim', 'messages': CONVERSATION}).json()['tokens']
    assert body['usage']['prompt_tokens'] == len(tokens)
    as_completion = engine.complete(tokens, max_tokens=6).json()
    assert as_completion['choices'][0]['text'] == choice['message']['content']
    assert as_completion['usage']['prompt_tokens_details']['cached_tokens'] > 0


def test_chat_stream_opens_with_the_role_and_ends_with_usage(start_engine):
    engine = start_engine('--service', 'batching')
    whole = chat(engine).json()['choices'][0]['message']['content']
    chunks = chunks_of(chat(engine, stream=True, stream_options={'include_usage': True}))
    assert {c['object'] for c in chunks} == {'chat.completion.chunk'}
    usage = chunks.pop()
    assert usage['choices'] == [] and usage['usage']['completion_tokens'] == 6
    assert chunks[0]['choices'][0]['delta'] == {'role': 'assistant', 'content': ''}
    assert ''.join(c['choices'][0]['delta']['content'] for c in chunks) == whole
    assert [c['choices'][0]['finish_reason'] for c in chunks] == [None] * (len(chunks) - 1) + ['length']


def test_stream_options_are_for_streams_and_continuous_usage_needs_usage(start_engine):
    engine = start_engine('--service', 'batching')
    assert engine.complete([1] * 5, stream_options={'include_usage': True}).status_code == 400
    chunks = chunks_of(engine.complete([1] * 5, stream=True, stream_options={'continuous_usage_stats': True}))
    assert not any('usage' in chunk for chunk in chunks)


@pytest.mark.parametrize('stream', [False, True])
def test_n_choices_differ_and_are_all_counted(start_engine, stream):
    engine = start_engine('--service', 'batching')
    options = {'stream_options': {'include_usage': True, 'continuous_usage_stats': True}} if stream else {}
    response = engine.complete([1] * 5, n=3, max_tokens=12, stream=stream, **options)
    texts = ['', '', '']
    if stream:
        chunks = chunks_of(response)
        assert all('usage' in chunk for chunk in chunks)
        usage = chunks[-1]['usage']
        for chunk in chunks[:-1]:
            texts[chunk['choices'][0]['index']] += chunk['choices'][0]['text']
    else:
        usage = response.json()['usage']
        texts = [choice['text'] for choice in response.json()['choices']]
    assert usage['completion_tokens'] == 36
    assert len(set(texts)) == 3 and {len(text) for text in texts} == {12}


def test_tokenize_and_detokenize_are_inverse(start_engine):
    engine = start_engine('--max-model-len', '4000')
    answer = post(engine, '/tokenize', {'model': 'sim', 'prompt': 'wörld', 'add_special_tokens': True}).json()
    assert answer['count'] == 6 and answer['max_model_len'] == 4000 and len(answer['tokens']) == 6
    assert post(engine, '/detokenize', {'tokens': answer['tokens']}).json() == {'prompt': 'wörld'}


def test_render_gives_the_ids_that_the_endpoints_use(start_engine):
    engine = start_engine()
    body = {'model': 'sim', 'messages': CONVERSATION, 'max_tokens': 3}
    tokens = post(engine, '/tokenize', body).json()['tokens']
    assert post(engine, '/v1/chat/completions/render', body).json()['token_ids'] == tokens
    [request] = post(engine, '/v1/completions/render', {'prompt': 'abc', 'max_tokens': 3}).json()
    assert request['token_ids'] == [97, 98, 99] and request['sampling_params']['max_tokens'] == 3
    without = start_engine('--no-render')
    assert post(without, '/v1/chat/completions/render', body).status_code == 404


def test_engines_of_different_templates_render_a_chat_differently(start_engine):
    body = {'messages': CONVERSATION}
    plain, other = start_engine(), start_engine('--chat-template', 'other')
    assert post(plain, '/tokenize', body).json()['tokens'] != post(other, '/tokenize', body).json()['tokens']
    assert chat(plain).json()['usage'] != chat(other).json()['usage']


def test_embeddings_depend_on_their_input_alone(start_engine):
    engine = start_engine('--engines', '2')
    [first, second] = post(engine, '/v1/embeddings', {'model': 'sim', 'input': ['a', 'b']}).json()['data']
    assert (first['index'], second['index']) == (0, 1) and first['embedding'] != second['embedding']
    by_ids = post(engine, '/v1/embeddings', {'input': [97]}, index=1).json()
    assert by_ids['data'][0]['embedding'] == first['embedding'] and by_ids['usage']['prompt_tokens'] == 1


def test_rank_in_the_header_is_the_global_one(start_engine):
    engine = start_engine('--dp-rank', '3')
    body = {'prompt': [1], 'max_tokens': 1}
    assert post(engine, '/v1/completions', body, headers={'X-data-parallel-rank': '3'}).status_code == 200
    assert post(engine, '/v1/completions', body).status_code == 200
    refused = post(engine, '/v1/completions', body, headers={'X-data-parallel-rank': '0'})
    assert refused.status_code == 400 and 'only 3' in refused.json()['error']['message']


def test_request_id_of_the_client_becomes_the_answer_id(start_engine):
    engine = start_engine()
    body = {'prompt': [1], 'max_tokens': 1}
    assert post(engine, '/v1/completions', body, headers={'X-Request-Id': 'r-7'}).json()['id'] == 'cmpl-r-7'


@pytest.mark.parametrize('path,body,code', [
    ('/tokenize', {}, 400), ('/tokenize', {'prompt': 3}, 400), ('/tokenize', {'messages': []}, 400),
    ('/tokenize', {'prompt': 'a', 'model': 'other'}, 404), ('/detokenize', {'tokens': [-1]}, 400),
    ('/detokenize', {}, 400), ('/v1/embeddings', {}, 400), ('/v1/embeddings', {'input': [[1, 'x']]}, 400),
    ('/v1/chat/completions', {'prompt': 'a'}, 400), ('/v1/chat/completions', {'messages': [{'content': 'a'}]}, 400),
    ('/v1/chat/completions', {'messages': CONVERSATION, 'model': 'other'}, 404),
])
def test_bad_requests_are_told_what_is_wrong(start_engine, path, body, code):
    response = post(start_engine(), path, body)
    assert response.status_code == code
    assert response.json()['error']['code'] == code and response.json()['error']['message']
