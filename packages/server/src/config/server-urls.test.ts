import { expect, it } from 'vitest'
import { serverUrls } from './server-urls.ts'

const two = ['postgres://u:p%40ss@a:5432/name', 'postgres://u:p%40ss@b:5433/name']

it.each<[string, string, string[]]>([
  ['one host', 'postgres://u:p@db/name', ['postgres://u:p@db/name']],
  ['two', 'postgres://u:p%40ss@a:5432,b:5433/name', two],
  [
    'no user, and parameters',
    'postgresql://a,b/n?sslmode=require',
    ['postgresql://a/n?sslmode=require', 'postgresql://b/n?sslmode=require'],
  ],
  ['IPv6', 'postgres://[::1]:5,[fe80::1]/n', ['postgres://[::1]:5/n', 'postgres://[fe80::1]/n']],
  ['no database', 'postgres://a,b', ['postgres://a', 'postgres://b']],
  ['read-write', 'postgres://a/n?target_session_attrs=read-write', ['postgres://a/n?target_session_attrs=read-write']],
])('reads %s', (_, url, urls) => {
  expect(serverUrls(url)).toEqual(urls)
})

it.each([
  ['no host', 'postgres://u:secret@/name', 'must be sqlite:<file> or postgres://<user>:<password>@<host>/<database>'],
  ['an empty host', 'postgres://u:secret@a,,b/name', 'must be sqlite:<file> or postgres://'],
  ['an impossible port', 'postgres://u:secret@a:99999,b/name', 'must be sqlite:<file> or postgres://'],
  ['another scheme', 'mysql://u:secret@a/name', 'must be sqlite:<file> or postgres://'],
  ['nine hosts', `postgres://u:secret@${'a,'.repeat(8)}b/name`, 'may name at most 8 hosts'],
  [
    'a standby',
    'postgres://u:secret@a,b/name?target_session_attrs=standby',
    'may have no target_session_attrs but read-write',
  ],
])('refuses %s, without the secret', (_, url, sentence) => {
  expect(() => serverUrls(url)).toThrow(sentence)
  expect(() => serverUrls(url)).not.toThrow('secret')
})
