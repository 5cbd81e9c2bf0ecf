import { knownTools } from '@wardline/contract'
import { describe, expect, it } from 'vitest'
import { classifyEvent, countedTool } from './classify.ts'

describe('classifyEvent', () => {
  it.each<[string, Record<string, unknown> | undefined, string]>([
    ['prompt_injection_detected', undefined, 'injection'],
    ['injection_blocked', undefined, 'injection'],
    ['injection_blocked', { blocked: true }, 'injection'],
    ['egress_blocked', undefined, 'blocked'],
    ['tool_blocked', {}, 'blocked'],
    ['anything_at_all_blocked', undefined, 'blocked'],
    ['tool_call', { blocked: true }, 'blocked'],
    ['tool_call', { blocked: 'true' }, 'none'],
    ['tool_call', { blocked: 1 }, 'none'],
    ['tool_call', { blocked: false }, 'none'],
    ['blocked', undefined, 'none'],
    ['egress_blocked_twice', undefined, 'none'],
    ['policy_violation', undefined, 'none'],
  ])('classifies %s with %j as %s', (eventType, metadata, kind) => {
    expect(classifyEvent(eventType, metadata)).toBe(kind)
  })
})

describe('countedTool', () => {
  it('counts every known tool under its own name, whichever field names it', () => {
    for (const tool of knownTools) {
      expect(countedTool('tool_call', { toolName: tool })).toBe(tool)
      expect(countedTool('tool_call', { tool })).toBe(tool)
      expect(countedTool('tool_call', { tool_name: tool })).toBe(tool)
    }
  })

  // Counters named by reporters could grow the table and the metrics without bound.
  it('counts every other tool as other', () => {
    const strange = [
      undefined,
      {},
      { tool: 'invented' },
      { tool: 7 },
      { tool: 'constructor' },
      { tool: ['web-search'] },
    ]
    for (const metadata of strange) expect(countedTool('tool_call', metadata)).toBe('other')
  })

  it('prefers toolName to other fields', () => {
    expect(countedTool('tool_call', { toolName: 'file-read', tool: 'shell-exec' })).toBe('file-read')
  })

  it('counts no tool for other events', () => {
    expect(countedTool('egress_blocked', { toolName: 'web-search' })).toBeNull()
  })
})
