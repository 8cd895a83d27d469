#!/usr/bin/python3
"""An engine on Python's http.server, with TLS or without: another implementation on the wire's other side.

Usage: std_engine.py [--certificate FILE --key FILE [--client-ca FILE]]. Prints its port; ends when its standard input does.

  POST /echo         the body
  GET  /stream/N     N chunks "data: i"
  GET  /until-close  no length, HTTP/1.0
  GET  /fields       the request's header fields as JSON
"""
import argparse
import http.server
import json
import ssl
import sys
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def log_message(self, *_):
        pass

    def answer(self, body, status=200):
        self.send_response(status)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(body)

    def do_POST(self):
        self.answer(self.rfile.read(int(self.headers.get('Content-Length', 0))))

    def do_HEAD(self):
        self.answer(b'x' * 1000)

    def do_GET(self):
        if self.path.startswith('/stream/'):
            self.send_response(200)
            self.send_header('Transfer-Encoding', 'chunked')
            self.end_headers()
            for i in range(int(self.path.rpartition('/')[2])):
                piece = f'data: {i}\n\n'.encode()
                self.wfile.write(b'%x\r\n%s\r\n' % (len(piece), piece))
            self.wfile.write(b'0\r\n\r\n')
        elif self.path == '/until-close':
            self.close_connection = True
            self.wfile.write(b'HTTP/1.0 200 OK\r\n\r\n' + b'y' * 300000)
            if isinstance(self.connection, ssl.SSLSocket):
                self.wfile.flush()
                try:
                    self.connection.unwrap()  # so that the end can be told from a cut
                except OSError:
                    pass
        elif self.path == '/fields':
            self.answer(json.dumps(dict(self.headers)).encode())
        else:
            self.answer(b'', 404)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--certificate')
    parser.add_argument('--key')
    parser.add_argument('--client-ca')
    arguments = parser.parse_args()
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    server.daemon_threads = True
    if arguments.certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(arguments.certificate, arguments.key)
        if arguments.client_ca:
            context.load_verify_locations(arguments.client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()


if __name__ == '__main__':
    main()
