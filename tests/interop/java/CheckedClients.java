import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Java clients of a run of the checker, which write what they do and see to its history.
 *
 * <p>java CheckedClients HISTORY BOOTSTRAP SEED NUMBER NAME PARTITIONS. NAME is java-producers or java-members. Each
 * client is a thread. SIGTERM ends all of them, after their last work.
 */
public class CheckedClients {
    static final String TOPIC = "records";
    final History history;
    final String bootstrap;
    final long seed;
    final int number;
    final String name;
    final int partitions;
    final AtomicBoolean stopping = new AtomicBoolean();

    private CheckedClients(String[] arguments) throws Exception {
        history = new History(arguments[0]);
        bootstrap = arguments[1];
        seed = Long.parseLong(arguments[2]);
        number = Integer.parseInt(arguments[3]);
        name = arguments[4];
        partitions = Integer.parseInt(arguments[5]);
    }

    public static void main(String[] arguments) throws Exception {
        CheckedClients clients = new CheckedClients(arguments);
        List<CheckedClient> threads = new ArrayList<>();
        if (clients.name.equals("java-producers")) {
            threads.add(new CheckedProducer(clients, "idempotent", null));
            threads.add(new CheckedProducer(clients, "transactional", clients.name + "-transactional"));
        } else {
            for (String each : List.of("1", "2")) {
                threads.add(new CheckedMember(clients, "classic-" + each, "java-classic"));
                threads.add(new CheckedMember(clients, "consumer-" + each, "java-consumer"));
            }
        }
        threads.forEach(Thread::start);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            clients.stopping.set(true);
            boolean haveFailed = false;
            for (CheckedClient thread : threads) {
                try {
                    thread.join();
                } catch (InterruptedException error) {
                    haveFailed = true;
                }
                haveFailed |= thread.hasFailed;
            }
            Runtime.getRuntime().halt(haveFailed ? 1 : 0);
        }));
        for (CheckedClient thread : threads) thread.join();
        if (threads.stream().anyMatch(thread -> thread.hasFailed)) Runtime.getRuntime().halt(1);
    }

    /** One client, which repeats a step until it is stopped, and begins a new life after an error. */
    abstract static class CheckedClient extends Thread {
        final CheckedClients clients;
        final History history;
        final Random random;
        private final String role;
        private int lives;
        private int operations;
        String process;
        volatile boolean hasFailed;

        CheckedClient(CheckedClients clients, String role) {
            super(role);
            this.clients = clients;
            this.history = clients.history;
            this.role = role;
            this.random = new Random(clients.seed * 1000003 + clients.number * 1009L + role.hashCode());
        }

        /** Begins a new life with a new client. */
        abstract void renew();

        abstract void step();

        /** Does the last work, and closes the client. */
        abstract void end();

        void beginLife() {
            process = "%s.%d.%s.%d".formatted(clients.name, clients.number, role, ++lives);
        }

        int nextOperation() {
            return operations++;
        }

        boolean isStopping() {
            return clients.stopping.get();
        }

        Map<String, Object> config() {
            Map<String, Object> config = new HashMap<>();
            config.put("bootstrap.servers", clients.bootstrap);
            config.put("reconnect.backoff.ms", "50");
            config.put("reconnect.backoff.max.ms", "500");
            config.put("retry.backoff.ms", "50");
            config.put("request.timeout.ms", "5000");
            return config;
        }

        void pause(int mostMs) {
            try {
                Thread.sleep(random.nextInt(mostMs + 1));
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
        }

        @Override
        public void run() {
            try {
                attempt(this::renew);
                while (!isStopping()) attempt(this::step);
                end();
            } catch (Throwable error) {
                error.printStackTrace();
                hasFailed = true;
            }
        }

        private void attempt(Runnable action) {
            Runnable next = action;
            while (next != null) {
                try {
                    next.run();
                    next = null;
                } catch (org.apache.kafka.common.KafkaException error) {
                    history.problem(process, error);
                    next = isStopping() ? null : this::renew;
                    pause(200);
                }
            }
        }
    }
}
