"""The page for a person with a browser."""
import http.client
import re

from conftest import DEADLINE_S, live_events, wait_for
from html.parser import HTMLParser

VOID = {'meta', 'p', 'tr', 'td', 'th'}  # elements whose end the page leaves out or may leave out


class Balanced(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = []
        self.links = []

    def handle_starttag(self, tag, attributes):
        self.links += [value for name, value in attributes if name == 'href']
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open and self.open[-1] == tag, (tag, self.open)
            self.open.pop()


def fetch(daemon, path):
    connection = http.client.HTTPConnection(daemon.http_address, timeout=DEADLINE_S)
    try:
        connection.request('GET', path)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def test_the_page_shows_the_fleet_and_links_to_why(start, new_engine):
    daemon = start()
    status, headers, page = fetch(daemon, '/')
    assert status == 200 and headers['Content-Type'] == 'text/html; charset=utf-8'
    assert 'not ready' in page and 'No request has been booked yet' in page
    engine = new_engine()
    daemon.register(3, address='http://w3<&>:1', events=live_events(engine.endpoint))
    engine.wait_for_subscriber()
    engine.store([1, 2], range(8))
    wait_for('blocks', lambda: daemon.metrics().one('kvrouter_worker_index_blocks', worker_id='3') == 2)
    daemon.route(range(8), 'odd id/<&>')
    daemon.route(range(100, 108), 'cold')
    _, headers, page = fetch(daemon, '/status')
    assert "default-src 'none'" in headers['Content-Security-Policy'] and '<script' not in page
    parsed = Balanced()
    parsed.feed(page)
    parsed.close()
    assert not parsed.open
    assert 'http://w3&lt;&amp;&gt;:1' in page
    assert 'class=good>ready</span>, 1 schedulable' in page
    rows = dict(re.findall(r'<tr><td>(token|block|request)<td class=n>([\d.]+) %', page))
    assert rows == {'token': '50.0', 'block': '50.0', 'request': '50.0'}
    for link in parsed.links:
        status, _, text = fetch(daemon, link)
        assert status == 200, (link, text)
    assert '/explain/odd%20id%2F%3C%26%3E' in parsed.links
    assert page.index('/explain/cold') < page.index('/explain/odd')  # newest first
