const form = /^(postgres(?:ql)?:\/\/(?:[^@/?#]*@)?)([^@/?#]+)((?:[/?#].*)?)$/
/** More would be a mistake: a primary has a few standbys. */
const maxServers = 8

/**
 * Returns the URL of each server of a URL with one or several hosts, as `postgres://user:password@a:5432,b:5432/name`
 * (https://www.postgresql.org/docs/current/libpq-connect.html, section 32.1.1.3). Throws an Error that quotes nothing of it.
 */
export function serverUrls(url: string): string[] {
  const [, begin, hosts, rest] = form.exec(url) ?? []
  const urls = hosts?.split(',').map((host) => `${begin}${host}${rest}`) ?? []
  if (urls.length === 0 || urls.some((each) => !URL.canParse(each))) {
    throw new Error('must be sqlite:<file> or postgres://<user>:<password>@<host>/<database>')
  }
  if (urls.length > maxServers) throw new Error(`may name at most ${maxServers} hosts`)
  const attributes = new URL(urls[0]!).searchParams.get('target_session_attrs') ?? 'read-write'
  if (attributes !== 'read-write' && attributes !== 'primary') {
    throw new Error('may have no target_session_attrs but read-write: the service writes')
  }
  return urls
}
