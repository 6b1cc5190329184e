// Drives kafkajs: node client.js BOOTSTRAP. The other end is tests/interop/client_process.py, which says what the lines mean.
// Run it with NODE_PATH set to the folder where package.json's dependencies are installed.

'use strict'

const readline = require('node:readline')
const { randomUUID } = require('node:crypto')
const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = require('kafkajs')
const snappy = require('kafkajs-snappy')
const lz4 = require('lz4js')
const { ZstdCodec } = require('zstd-codec')

const BOOTSTRAP = process.argv[2]
const COMPRESSION = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD,
}
const ACKS = { 0: 0, 1: 1, all: -1 }

const zstd = new Promise((resolve) => ZstdCodec.run((codecs) => resolve(new codecs.Simple())))
CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async (encoder) => Buffer.from(lz4.compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(lz4.decompress(buffer)),
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from((await zstd).compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from((await zstd).decompress(buffer)),
})

const say = (line) => process.stdout.write(JSON.stringify(line) + '\n')

const cluster = (clientId) =>
  new Kafka({
    clientId,
    brokers: BOOTSTRAP.split(","),
    logLevel: logLevel.ERROR,
    // Standard output is for the lines.
    logCreator: () => ({ namespace, level, log }) => process.stderr.write(`${namespace} ${level} ${log.message}\n`),
  })

const text = (buffer) => (buffer === null || buffer === undefined ? null : buffer.toString('utf8'))

// kafkajs has a header that occurs more than once as an array.
const toHeaders = (pairs) => {
  const headers = {}
  for (const [name, value] of pairs || []) {
    if (name in headers) headers[name] = [].concat(headers[name], value)
    else headers[name] = value
  }
  return headers
}

const toPairs = (headers) =>
  Object.entries(headers || {}).flatMap(([name, value]) => [].concat(value).map((one) => [name, text(one)]))

const asMap = (partition, message) => ({
  partition,
  offset: Number(message.offset),
  timestamp: Number(message.timestamp),
  key: text(message.key),
  value: text(message.value),
  headers: toPairs(message.headers),
})

// Sends messages in one request; kafkajs tells where each partition's first record went, so a message without a partition
// goes alone. Nothing is known of records that nobody acknowledges.
async function send(producer, request) {
  const answers = (await producer.send(request)) || []
  const next = new Map(answers.map(({ partition, baseOffset }) => [partition, Number(baseOffset)]))
  return request.messages.map((message) => {
    const partition = message.partition === undefined ? answers[0]?.partition : message.partition
    const offset = next.get(partition)
    next.set(partition, offset + 1)
    return offset === undefined ? [] : [partition, offset, null]
  })
}

async function produce({ topic, records, config = {} }) {
  const idempotent = config['enable.idempotence'] === 'true'
  const producer = cluster('producer').producer({ idempotent, ...(idempotent ? { maxInFlightRequests: 1 } : {}) })
  const messages = records.map((record) => ({
    key: record.key === undefined ? null : record.key,
    value: record.value,
    partition: record.partition,
    timestamp: record.timestamp === undefined ? undefined : String(record.timestamp),
    headers: toHeaders(record.headers),
  }))
  const areAlone = config['batch.size'] !== undefined || messages.some(({ partition }) => partition === undefined)
  const requests = areAlone ? messages.map((message) => [message]) : [messages]
  await producer.connect()
  try {
    const places = []
    for (const group of requests)
      places.push(
        ...(await send(producer, {
          topic,
          messages: group,
          acks: ACKS[config.acks || 'all'],
          compression: COMPRESSION[config['compression.type'] || 'none'],
        }))
      )
    return places
  } finally {
    await producer.disconnect()
  }
}

// Writes each list of "transactions" in a transaction; every second one is aborted.
async function transact({ topic, transactions, ...options }) {
  const settings = { transactionalId: options['transactional.id'], idempotent: true, maxInFlightRequests: 1 }
  const producer = cluster('producer').producer(settings)
  await producer.connect()
  try {
    for (const [number, messages] of transactions.entries()) {
      const transaction = await producer.transaction()
      await transaction.send({ topic, messages })
      await (number % 2 ? transaction.abort() : transaction.commit())
    }
  } finally {
    await producer.disconnect()
  }
}

const byPartition = (list) => new Map(list.map(({ partition, offset }) => [partition, Number(offset)]))

// Reads all partitions of "topic" from "earliest", "latest", "offset" or "timestamp" on, to the end. kafkajs reads in groups only.
async function read(command) {
  const { topic } = command
  const kafka = cluster('reader')
  const admin = kafka.admin()
  await admin.connect()
  const watermarks = await admin.fetchTopicOffsets(topic)
  const ends = byPartition(watermarks)
  let starts = ends
  if (command.offset !== undefined) starts = new Map([...ends].map(([partition]) => [partition, command.offset]))
  else if (command.timestamp !== undefined)
    starts = byPartition(await admin.fetchTopicOffsetsByTimestamp(topic, command.timestamp))
  else if (command.from === 'earliest') starts = new Map(watermarks.map(({ partition, low }) => [partition, Number(low)]))
  await admin.disconnect()

  const positions = new Map(starts)
  const isDone = () => [...ends].every(([partition, end]) => positions.get(partition) >= end)
  const arrived = []
  if (isDone()) return arrived
  const consumer = kafka.consumer({ groupId: `reader-${randomUUID()}`, maxWaitTimeInMs: 100 })
  await consumer.connect()
  try {
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
      consumer.on(consumer.events.GROUP_JOIN, () => {
        for (const [partition, offset] of starts) consumer.seek({ topic, partition, offset: String(offset) })
      })
      const eachMessage = async ({ partition, message }) => {
        if (Number(message.offset) < positions.get(partition)) return
        arrived.push(asMap(partition, message))
        positions.set(partition, Number(message.offset) + 1)
        if (isDone()) resolve()
      }
      consumer.run({ autoCommit: false, eachMessage }).catch(reject)
    })
  } finally {
    await consumer.disconnect()
  }
  return arrived
}

class Member {
  constructor(name, topic, config) {
    this.name = name
    this.topic = topic
    this.config = config
    this.positions = new Map()
    this.owned = []
    const number = (key) => (config[key] === undefined ? undefined : Number(config[key]))
    this.consumer = cluster(config['client.id']).consumer({
      groupId: config['group.id'],
      sessionTimeout: number('session.timeout.ms'),
      heartbeatInterval: number('heartbeat.interval.ms'),
      maxWaitTimeInMs: 100,
    })
  }

  tell(event, more) {
    say({ member: this.name, event, ...more })
  }

  async run() {
    const { consumer, topic } = this
    consumer.on(consumer.events.REBALANCING, () => this.tell('revoked', { partitions: this.owned }))
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      this.owned = [...(payload.memberAssignment[topic] || [])].sort((one, other) => one - other)
      this.positions.clear()
      this.tell('assigned', { partitions: this.owned })
    })
    consumer.on(consumer.events.CRASH, ({ payload }) => {
      if (!payload.restart) this.tell('failed', { error: payload.error.name, message: payload.error.message })
    })
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: this.config['auto.offset.reset'] === 'earliest' })
    await consumer.run({
      autoCommit: this.config['enable.auto.commit'] !== 'false',
      eachMessage: async ({ partition, message }) => {
        this.positions.set(partition, Number(message.offset) + 1)
        this.tell('record', asMap(partition, message))
      },
    })
  }

  rewind() {
    for (const partition of this.owned) this.consumer.seek({ topic: this.topic, partition, offset: '0' })
  }

  async commit() {
    const places = [...this.positions].map(([partition, offset]) => ({
      topic: this.topic,
      partition,
      offset: String(offset),
    }))
    try {
      await this.consumer.commitOffsets(places)
    } catch (error) {
      return this.tell('refused', { error: error.message })
    }
    this.tell('committed')
  }

  async leave() {
    await this.consumer.disconnect()
    this.tell('left')
  }
}

const members = new Map()

const OPERATIONS = {
  produce,
  transact,
  read,
  join: async ({ name, topic, config }) => {
    const member = new Member(name, topic, config)
    members.set(name, member)
    member.run().catch((error) => member.tell('failed', { error: error.name, message: error.message }))
  },
  leave: async ({ name }) => {
    await members.get(name).leave()
    members.delete(name)
  },
  rewind: async ({ name }) => members.get(name).rewind(),
  commit: async ({ name }) => {
    members.get(name).commit()
  },
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const command = JSON.parse(line)
    try {
      const answer = await OPERATIONS[command.do](command)
      say({ answer: answer === undefined ? null : answer })
    } catch (error) {
      say({ error: error.name, message: error.message })
    }
  }
  process.exit(0)
}

main()
