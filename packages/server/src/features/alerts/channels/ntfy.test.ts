import { expect, it } from 'vitest'
import { chatMessage, testSender } from '../../../testing/chat.ts'
import { ntfy } from './ntfy.ts'

it.each([
  ['https://ntfy.sh/on-call', 'https://ntfy.sh/', 'on-call'],
  ['https://ntfy.sh/on-call/', 'https://ntfy.sh/', 'on-call'],
  ['http://10.0.0.5:8080/push/ntfy/on-call', 'http://10.0.0.5:8080/push/ntfy/', 'on-call'],
  ['https://ntfy.example.com/on-call?auth=c2VjcmV0', 'https://ntfy.example.com/?auth=c2VjcmV0', 'on-call'],
  ['https://ntfy.sh', 'https://ntfy.sh/', ''],
])('for the URL %s of ntfy goes to %s with the topic %s', (given, url, topic) => {
  const request = ntfy.request(chatMessage(), { url: given }, testSender)
  expect([request.url, JSON.parse(request.body).topic]).toEqual([url, topic])
  expect(request.headers).toEqual({ 'content-type': 'application/json', 'user-agent': 'Wardline/1.2.3' })
})
