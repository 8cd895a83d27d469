"""A TCP relay between a router and an engine that breaks, stalls and refuses connections on command."""
import asyncio
import threading


class Relay:
    """Listens on a port of its own and connects each client to the engine's port, if that answers. When either side
    goes, the other one goes with it, as without a relay."""

    def __init__(self, target_port):
        self.target_port = target_port
        self.port = None
        self._writers = set()
        self._flowing = None
        self._refusing = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()
        self._thread.start()
        self._ready.wait()

    # ---- Faults ----

    def break_all(self):
        """Resets every connection: what is in flight is lost."""
        self._do(self._abort)

    def stall(self):
        """Nothing moves any more, and nobody is told."""
        self._do(self._flowing.clear)

    def flow(self):
        self._do(self._flowing.set)

    def refuse(self, refusing):
        self._refusing = refusing

    def close(self):
        self._do(self._loop.stop)
        self._thread.join()

    # ---- The loop's thread ----

    def _do(self, what):
        self._loop.call_soon_threadsafe(what)

    def _abort(self):
        for writer in list(self._writers):
            writer.transport.abort()

    def _run(self):
        asyncio.set_event_loop(self._loop)
        self._flowing = asyncio.Event()
        self._flowing.set()
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, '127.0.0.1', 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        self._abort()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _serve(self, reader, writer):
        self._writers.add(writer)
        try:
            if self._refusing:
                return
            engine_reader, engine_writer = await asyncio.open_connection('127.0.0.1', self.target_port)
            self._writers.add(engine_writer)
            pumps = [asyncio.ensure_future(self._pump(reader, engine_writer)),
                     asyncio.ensure_future(self._pump(engine_reader, writer))]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            for pump in pumps:
                pump.cancel()
            engine_writer.transport.abort()
            self._writers.discard(engine_writer)
        except OSError:
            pass
        finally:
            writer.transport.abort()
            self._writers.discard(writer)

    async def _pump(self, reader, writer):
        try:
            while data := await reader.read(1 << 16):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
