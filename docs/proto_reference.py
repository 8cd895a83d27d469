"""The gRPC contract as a page: services, messages and enums of proto/ with their comments, read from protoc's descriptors."""
import pathlib
import re
import subprocess
import tempfile

from google.protobuf import descriptor_pb2

# Field numbers of FileDescriptorProto and of what it holds: the steps of a location path in SourceCodeInfo.
MESSAGES, ENUMS, SERVICES = 4, 5, 6
NESTED_MESSAGES, NESTED_ENUMS, FIELDS, ONEOFS = 3, 4, 2, 8
METHODS, VALUES = 2, 2

Field = descriptor_pb2.FieldDescriptorProto
SCALARS = {value: name[len('TYPE_'):].lower() for name, value in Field.Type.items()}


def read_files(proto_root):
    """FileDescriptorProtos of proto/kvrouter/v1, with comments."""
    files = sorted(str(path.relative_to(proto_root)) for path in (proto_root / 'kvrouter/v1').glob('*.proto'))
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(['protoc', '-I', str(proto_root), '--include_source_info', f'--descriptor_set_out={out.name}', *files],
                       check=True)
        described = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(out.name).read_bytes())
    return [file for file in described.file if file.name in files]


def anchor(full_name):
    return full_name.lstrip('.').removeprefix('kvrouter.v1.').lower()


class Comments:
    """Comments of one file by location path."""

    def __init__(self, file):
        self.located = {tuple(location.path): location for location in file.source_code_info.location}

    def of(self, path):
        """One line: a comment is wrapped in the source, not in the page."""
        location = self.located.get(tuple(path))
        parts = (location.leading_comments, location.trailing_comments) if location else ()
        return ' '.join(' '.join(part.split()) for part in parts if part.strip())

    def shares_comment(self, path, previous):
        """Whether a field without a comment stands right below one whose leading comment is for both."""
        here, above = self.located[tuple(path)], self.located[tuple(previous)]
        return here.span[0] == above.span[0] + 1 and not above.trailing_comments.strip()


class Page:
    def __init__(self, files):
        self.files = files
        self.known = set()  # simple names that have a heading, to link them in comments
        self.missing = []  # what has no comment and should
        self.out = []
        for file in files:
            self.known.update(m.name for m in file.message_type)
            self.known.update(e.name for e in file.enum_type)

    def prose(self, text):
        """A comment as Markdown: table-safe, names of messages become links."""
        text = text.replace('|', r'\|').replace('<', '&lt;')
        text = re.sub(r'\bdocs/(\w+\.md(?:#[\w-]+)?)', lambda m: f'[{m.group(1)}]({m.group(1)})', text)
        return re.sub(r'(?<![\w`.\[#/])([A-Z][A-Za-z]+)(?![\w`\]/])',
                      lambda m: f'[{m.group(1)}](#{m.group(1).lower()})' if m.group(1) in self.known else m.group(1), text)

    def link(self, type_name):
        name = type_name.lstrip('.').removeprefix('kvrouter.v1.')
        return f'[{name}](#{anchor(type_name)})'

    def comment(self, comments, path, what):
        text = comments.of(path)
        if not text:
            self.missing.append(what)
        return self.prose(text)

    def heading(self, level, name):
        self.out += [f'<a name="{anchor(name)}"></a>', f'{"#" * level} {name}', '']

    def services(self):
        for file in self.files:
            comments = Comments(file)
            for i, service in enumerate(file.service):
                self.heading(2, service.name)
                self.out += [self.comment(comments, (SERVICES, i), service.name), '', '| Call | Request | Answer | |', '|---|---|---|---|']
                for j, method in enumerate(service.method):
                    request = ('stream of ' if method.client_streaming else '') + self.link(method.input_type)
                    answer = ('stream of ' if method.server_streaming else '') + self.link(method.output_type)
                    text = self.comment(comments, (SERVICES, i, METHODS, j), f'{service.name}.{method.name}')
                    self.out.append(f'| `{method.name}` | {request} | {answer} | {text} |')
                self.out.append('')

    def messages(self):
        for file in self.files:
            comments = Comments(file)
            self.out += [f'## {file.name}', '']
            for i, message in enumerate(file.message_type):
                self.message(comments, (MESSAGES, i), message)
            for i, enum in enumerate(file.enum_type):
                self.enum(comments, (ENUMS, i), enum)

    def message(self, comments, path, message):
        assert not [n for n in message.nested_type if not n.options.map_entry], f'{message.name}: write nested messages here'
        self.heading(3, message.name)
        if comments.of(path):
            self.out += [self.prose(comments.of(path)), '']
        if not message.field:
            self.out += ['Empty.', '']
            return
        self.out += ['| Field | Number | Type | |', '|---|---|---|---|']
        entries = {entry.name: entry for entry in message.nested_type}
        one_ofs = [o.name for o in message.oneof_decl]
        leader = None  # the field whose comment is for the ones below it, too
        for j, field in enumerate(message.field):
            here = (*path, FIELDS, j)
            if leader and not comments.of(here) and comments.shares_comment(here, (*path, FIELDS, j - 1)):
                text = f'See `{leader}`.'
            else:
                text = self.comment(comments, here, f'{message.name}.{field.name}')
                leader = field.name if text else None
            if field.HasField('oneof_index') and not field.proto3_optional:
                together = comments.of((*path, ONEOFS, field.oneof_index))
                first = message.field[j - 1].oneof_index != field.oneof_index or not message.field[j - 1].HasField('oneof_index') or j == 0
                text = f'One of `{one_ofs[field.oneof_index]}`. {self.prose(together) + " " if first and together else ""}{text}'
            self.out.append(f'| `{field.name}` | {field.number} | {self.type_of(field, entries)} | {text} |')
        reserved = [str(r.start) if r.end == r.start + 1 else f'{r.start} to {r.end - 1}' for r in message.reserved_range]
        if reserved:
            self.out += ['', f'Reserved numbers: {", ".join(reserved)}.']
        self.out.append('')

    def type_of(self, field, entries):
        entry = entries.get(field.type_name.rsplit('.', 1)[-1])
        if entry is not None:
            key, value = entry.field
            return f'map&lt;{self.base_type(key)}, {self.base_type(value)}&gt;'
        base = self.base_type(field)
        if field.label == Field.LABEL_REPEATED:
            return f'repeated {base}'
        return f'optional {base}' if field.proto3_optional else base

    def base_type(self, field):
        return self.link(field.type_name) if field.type_name else SCALARS[field.type]

    def enum(self, comments, path, enum):
        self.heading(3, enum.name)
        self.out += [self.comment(comments, path, enum.name) if comments.of(path) else '', '', '| Value | Number | |', '|---|---|---|']
        for j, value in enumerate(enum.value):
            text = self.prose(comments.of((*path, VALUES, j)))
            if not text and not value.name.endswith('_UNSPECIFIED'):
                self.missing.append(f'{enum.name}.{value.name}')
            self.out.append(f'| `{value.name}` | {value.number} | {text} |')
        self.out.append('')


def reference(proto_root):
    """The page's text and the names of what lacks a comment."""
    page = Page(read_files(proto_root))
    page.services()
    page.messages()
    text = re.sub(r'\n{3,}', '\n\n', '\n'.join(line.rstrip() for line in page.out))
    return text.strip(), page.missing
