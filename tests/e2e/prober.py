"""Callers that ask where to send a prompt, at a steady rate, and keep what they were told."""
import threading
import time

TOKENS = list(range(64))
STALL_S = 0.01  # shorter ones are every machine's


class Prober:
    """Asks for advice `rate_hz` times a second, from several threads so that a late answer delays no other question.

    `answers` are (asked at, address or error). A machine that is busy with others lowers the rate and delays everybody; `stalls`
    tell when a thread that only wanted to sleep was held up, and for how long.
    """

    def __init__(self, daemon, rate_hz=1000, threads=4, tokens=TOKENS):
        self.daemon, self.tokens = daemon, tokens
        self.period_s = threads / rate_hz
        self.answers, self.stalls = [], []
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=self.ask, args=(i * self.period_s / threads,)) for i in range(threads)]
        self.threads.append(threading.Thread(target=self.watch_machine))

    def ask(self, offset_s):
        due = time.monotonic() + offset_s
        while not self.stopped.is_set():
            time.sleep(max(0.0, due - time.monotonic()))
            asked = time.monotonic()
            due = max(due + self.period_s, asked)  # what was missed is not made up for
            try:
                answer = self.daemon.route(self.tokens, advise_only=True).address
            except Exception as error:  # every kind counts
                answer = error
            self.answers.append((asked, answer))

    def watch_machine(self):
        while not self.stopped.is_set():
            begin = time.monotonic()
            time.sleep(0.005)
            late_s = time.monotonic() - begin - 0.005
            if late_s >= STALL_S:
                self.stalls.append((begin, late_s))

    def __enter__(self):
        self.begin = time.monotonic()
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join()
        self.duration_s = time.monotonic() - self.begin

    def failures(self):
        return [repr(answer) for _, answer in self.answers if isinstance(answer, Exception)]

    def longest_stall_s(self, begin, end):
        """Of those that overlap this time."""
        return max((late for at, late in self.stalls if at < end and at + late > begin), default=0.0)

    def wait_for_answers(self, count, deadline_s=20):
        end, enough = time.monotonic() + deadline_s, len(self.answers) + count
        while len(self.answers) < enough:
            assert time.monotonic() < end, f'{len(self.answers)} of {enough} answers'
            time.sleep(0.005)
