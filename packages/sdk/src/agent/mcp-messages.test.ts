import fc from 'fast-check'
import { expect, test } from 'vitest'
import { anyCharacter } from '../../../../test-servers/any-character.ts'
import { messagesIn } from './mcp-messages.ts'

const ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}'
const read = (line: string | Buffer) => messagesIn(Buffer.from(line as string))

test.each([
  ['a message', `${ping}\n`],
  ['a message that ends the input', ping],
  ['a Windows line end', `${ping}\r\n`],
  ['spaces around it', ` \t${ping} \r\n`],
  ['a batch', `[${ping}, ${ping}]\n`],
  ['separators of lines and surrogates in texts', '{"method":"a","params":{"s":"\u2028 \u0085 \\r \\ud800"}}\n'],
  ['a number too large to be exact', '{"id":12345678901234567890,"result":{"n":1e999}}\n'],
  [
    'methods that are like the one of a call',
    '[{"method":"tools/call2"},{"method":"tools/calls"},{"method":"tools_call"}]\n',
  ],
  ['a response with all fields', '{"id":1,"method":null,"params":null,"result":{}}\n'],
  ['names that repeat in different objects', '{"a":{"x":1,"y:":"x:\\"y\\":"},"b":[{"x":1},{"x":1}]}\n'],
])('reads %s', (_form, line) => {
  expect(read(line)).toEqual([JSON.parse(line)].flat())
})

test('finds no messages in blank lines', () => {
  for (const line of ['', '\n', ' \t\n', '\r\n', '\r']) expect(read(line)).toEqual([])
})

const longS = '\u017f'
test.each([
  ['unreadable', 'NaN', ping.replace('1', 'NaN')],
  ['unreadable', 'an infinite number', ping.replace('1', '-Infinity')],
  ['unreadable', 'a byte order mark', `\ufeff${ping}`],
  ['unreadable', 'a trailing comma', ping.replace('}', ',}')],
  ['unreadable', 'a comment', `${ping} // a`],
  ['unreadable', 'a raw tab in a text', ping.replace('ping', 'pi\tng')],
  ['unreadable', 'two messages', ping + ping],
  ['unreadable', 'two messages with a carriage return between them', `${ping}\r${ping}`],
  ['unreadable', 'two messages with a separator of lines between them', `${ping}\u2028${ping}`],
  // Servers that end lines at a carriage return would read the inner message.
  ['unreadable', 'a message between carriage returns in another', `{"method":"a","params":\r${ping}\r}`],
  ['unreadable', 'a carriage return before the message', `\r${ping}`],
  ['unreadable', 'half a message', ping.slice(0, -1)],
  ['unreadable', 'a line separator alone', '\u2028'],
  ['unreadable', 'an unbreakable space alone', '\u00a0'],
  ['unreadable', 'a byte that is not UTF-8', Buffer.from(ping.replace('ping', 'pi\xffng'), 'latin1')],
  ['unreadable', 'half a character in UTF-8', Buffer.from(`7b2261223a22eda080227d`, 'hex')],
  ['invalid', 'a number', '42'],
  ['invalid', 'null', 'null'],
  ['invalid', 'an empty batch', '[]'],
  ['invalid', 'a batch in a batch', `[[${ping}]]`],
  ['invalid', 'a batch with a text', `[${ping},"a"]`],
  ['invalid', 'a batch with null', `[${ping},null]`],
  // As a property name of JavaScript, a list of one text is that text.
  ['invalid', 'a method in a list', '{"id":1,"method":["tools/call"],"params":{}}'],
  ['invalid', 'a method in a list of a list, in a batch', `[${ping},{"method":[["tools/call"]]}]`],
  ['ambiguous', 'two equal names', '{"method":"a","params":{"x":1,"x":2}}'],
  ['ambiguous', 'two names that are equal once unescaped', '{"method":"a","params":{"x":1,"\\u0078":2}}'],
  ['ambiguous', 'a method in another case', '{"method":"a","Method":"b"}'],
  ['ambiguous', 'parameters with a long s', `{"method":"a","param${longS}":{}}`],
  ['ambiguous', 'arguments in another case, in a batch', `[${ping},{"method":"a","params":{"Arguments":{}}}]`],
  // In C a text ends at a NUL.
  ['ambiguous', 'a NUL behind a field of the protocol', '{"method":"a","method\\u0000x":"tools/call"}'],
  ['ambiguous', 'a NUL behind the method', '{"method":"tools/call\\u0000","params":{}}'],
  // PowerShell compares texts so.
  ['ambiguous', 'the method of a call in another case', '{"method":"Tools/Call","params":{}}'],
  ['ambiguous', 'the method of a call with a long s', `{"method":"tool${longS}/call"}`],
  ['ambiguous', 'the method of a call with a sign without a width', '{"method":"tools\\u200b/call","params":{}}'],
  ['ambiguous', 'the method of a call with a blank, in a batch', `[${ping},{"method":"tools/call "}]`],
])('finds %s: %s', (reading, _form, line) => {
  expect(read(Buffer.isBuffer(line) ? line : `${line}\n`)).toBe(reading)
})

test('reads every line that JSON.stringify writes for a client, and throws for none', () => {
  const params = fc.dictionary(fc.string({ unit: anyCharacter }), fc.jsonValue())
  fc.assert(
    fc.property(params, fc.uint8Array(), (given, bytes) => {
      const message = { jsonrpc: '2.0', id: 1, method: 'a', params: { name: 'b', arguments: given } }
      // -0 becomes 0.
      expect(read(`${JSON.stringify(message)}\n`)).toEqual([JSON.parse(JSON.stringify(message))])
      expect(messagesIn(Buffer.from(bytes))).toBeDefined()
    }),
    { seed: 20261124 },
  )
})
