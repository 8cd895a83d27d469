#!/usr/bin/python3
"""A client of Python's standard library: tls_client.py PORT CA_FILE. Prints "ok" when all went as it should."""
import http.client
import ssl
import sys


def main():
    port, ca_file = int(sys.argv[1]), sys.argv[2]
    context = ssl.create_default_context(cafile=ca_file)
    context.set_alpn_protocols(['h2', 'http/1.1'])
    connection = http.client.HTTPSConnection('localhost', port, context=context, timeout=60)
    connection.connect()
    assert connection.sock.selected_alpn_protocol() == 'http/1.1'
    local = connection.sock.getsockname()

    body = bytes(i * 7 % 251 for i in range(5_000_000))
    for size in (0, 1, 16384, 16385, len(body)):
        connection.request('POST', '/echo', body[:size])
        answer = connection.getresponse()
        assert answer.status == 200, answer.status
        assert answer.read() == body[:size], size

    pieces = [body[i * 999:(i + 1) * 999] for i in range(1000)]
    connection.request('POST', '/echo', iter(pieces), encode_chunked=True, headers={'Transfer-Encoding': 'chunked'})
    assert connection.getresponse().read() == b''.join(pieces)

    connection.request('GET', '/stream')
    answer = connection.getresponse()
    assert answer.read() == b''.join(b'data: %d\n\n' % i for i in range(1000))
    assert connection.sock.getsockname() == local, 'the connection was not kept'
    print('ok')


if __name__ == '__main__':
    main()
