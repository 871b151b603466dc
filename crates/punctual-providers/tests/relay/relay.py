"""A mail server that goes wrong as it is told.

Usage: relay.py JSON, with {"tls": "starttls"|"implicit", "auth": [name, password], "steps": [...]}. It prints
its port, then a line of JSON for every connection, login and mail. A step is for one mail and says where it
goes wrong: {"at": "MAIL"|"RCPT"|"DATA"|"END", "say": "450 later"} or with "do": "cut", "cut-in-text" (both
hang up) or "silence". Without a step left, mails are taken.
"""

import asyncio
import json
import logging
import os
import ssl
import sys
import warnings

from aiosmtpd.smtp import SMTP, AuthResult

# Tests make it go wrong on purpose; its complaints about that are noise.
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

settings = json.loads(sys.argv[1])
steps = list(settings.get("steps", []))
here = os.path.dirname(os.path.abspath(__file__))


def tell(**what):
    print(json.dumps(what), flush=True)


def encrypted(session):
    return session.ssl is not None or settings.get("tls") == "implicit"


def certificate():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(here, "relay.pem"), os.path.join(here, "relay.key"))
    return context


def check(server, session, envelope, mechanism, given):
    name, password = given.login.decode(), given.password.decode()
    right = [name, password] == settings["auth"]
    tell(login=name, right=right, encrypted=encrypted(session))
    return AuthResult(success=right, handled=right)


class Relay(SMTP):
    step = {}

    def connection_made(self, transport):
        super().connection_made(transport)
        if self.session.ssl is None or settings.get("tls") == "implicit":
            tell(connected=True)

    async def goes_wrong(self, at):
        if self.step.get("at") != at:
            return False
        step, self.step = self.step, {}
        if "say" in step:
            await self.push(step["say"])
        elif step["do"] == "silence":
            await asyncio.sleep(3600)
        else:
            if step["do"] == "cut-in-text":
                await self.push("354 go on")
            self.transport.close()
        return True

    async def smtp_MAIL(self, arg):
        self.step = steps.pop(0) if steps else {}
        if not await self.goes_wrong("MAIL"):
            await super().smtp_MAIL(arg)

    async def smtp_RCPT(self, arg):
        if not await self.goes_wrong("RCPT"):
            await super().smtp_RCPT(arg)

    async def smtp_DATA(self, arg):
        if not await self.goes_wrong("DATA"):
            await super().smtp_DATA(arg)


class Handler:
    async def handle_DATA(self, server, session, envelope):
        tell(
            mail=envelope.content.decode("utf-8", "replace"),
            sender=envelope.mail_from,
            to=envelope.rcpt_tos,
            encrypted=encrypted(session),
        )
        step, server.step = server.step, {}
        if step.get("at") != "END":
            return "250 queued as 4711"
        if "say" in step:
            return step["say"]
        if step["do"] == "silence":
            await asyncio.sleep(3600)
        server.transport.abort()
        return "250 nobody hears this"


def relay():
    tls = certificate() if settings.get("tls") == "starttls" else None
    auth = settings.get("auth")
    return Relay(
        Handler(),
        hostname="relay.example",
        tls_context=tls,
        require_starttls=tls is not None,
        authenticator=check if auth else None,
        auth_required=bool(auth),
        auth_require_tls=False,
        enable_SMTPUTF8=False,
    )


async def main():
    implicit = certificate() if settings.get("tls") == "implicit" else None
    server = await asyncio.get_running_loop().create_server(relay, "127.0.0.1", 0, ssl=implicit)
    tell(port=server.sockets[0].getsockname()[1])
    await server.serve_forever()


asyncio.run(main())
