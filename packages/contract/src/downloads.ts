import { define } from './endpoint.ts'

const headers = { 'if-none-match': 'ETag of the last answer; 304 while the file is the same' }
const replyHeaders = { etag: 'Hash of the bytes' }

/** Files that an agent on another machine needs besides a key. Open, because package managers send no key. */
export const downloadEndpoints = {
  getSdk: define({
    method: 'GET',
    path: '/sdk.tgz',
    access: 'open',
    feature: 'downloads',
    summary: 'The SDK of this version for TypeScript and JavaScript, for `npm install <url>/sdk.tgz`',
    headers,
    status: 200,
    replyHeaders,
    file: { contentType: 'application/gzip', description: 'An npm package' },
    failures: { 503: 'A service that runs from its sources could not pack them; the log has the reason' },
  }),
  getPythonClient: define({
    method: 'GET',
    path: '/wardline.py',
    access: 'open',
    feature: 'downloads',
    summary: 'The client of this version for Python, one file',
    headers,
    status: 200,
    replyHeaders,
    file: { contentType: 'text/x-python; charset=utf-8', description: 'Python source' },
  }),
} as const
