"""For tables of HTTP calls: sending one, and comparing its answer with an expected shape."""
import http.client
import json

from conftest import DEADLINE_S

JSON = 'application/json'


def send_to(address, method, path, body=None, content_type=JSON, headers=None):
    connection = http.client.HTTPConnection(address, timeout=DEADLINE_S)
    try:
        sent = dict(headers or {})
        if content_type is not None and body is not None:
            sent['Content-Type'] = content_type
        raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, body=raw, headers=sent)
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text else None
    finally:
        connection.close()


def misfit(expected, got, where='answer'):
    """Why `got` does not have the expected shape; None if it has."""
    if expected is ...:
        return None
    if isinstance(expected, type):
        return None if isinstance(got, expected) else f'{where}: {got!r} is no {expected.__name__}'
    if isinstance(expected, dict):
        if not isinstance(got, dict):
            return f'{where}: {got!r} is no object'
        for name, value in expected.items():
            if name not in got:
                return f'{where}.{name} is missing in {got}'
            reason = misfit(value, got[name], f'{where}.{name}')
            if reason:
                return reason
        return None
    if isinstance(expected, list):
        if not isinstance(got, list) or len(got) != len(expected):
            return f'{where}: {got!r} instead of {expected!r}'
        return next(filter(None, (misfit(e, g, f'{where}[{i}]') for i, (e, g) in enumerate(zip(expected, got)))), None)
    return None if got == expected and type(got) is type(expected) or (
        isinstance(expected, (int, float)) and got == expected) else f'{where}: {got!r} instead of {expected!r}'
