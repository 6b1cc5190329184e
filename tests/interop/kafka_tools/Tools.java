import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs a script of Apache Kafka's command line tools in one JVM and prints what each step wrote.
 *
 * <p>java -cp CLASSPATH Tools.java SCRIPT BOOTSTRAP. The script's language is told at its top. Each tool's own main runs,
 * as its shell script would start it; --bootstrap-server is added. Output per step: "$ step", its lines (those of
 * standard error after "! "), and "= exit status".
 */
public class Tools {
    private static final Map<String, String> MAIN_CLASSES = Map.ofEntries(
        Map.entry("kafka-acls", "org.apache.kafka.tools.AclCommand"),
        Map.entry("kafka-broker-api-versions", "org.apache.kafka.tools.BrokerApiVersionsCommand"),
        Map.entry("kafka-cluster", "org.apache.kafka.tools.ClusterTool"),
        Map.entry("kafka-configs", "kafka.admin.ConfigCommand"),
        Map.entry("kafka-console-consumer", "org.apache.kafka.tools.consumer.ConsoleConsumer"),
        Map.entry("kafka-console-producer", "org.apache.kafka.tools.ConsoleProducer"),
        Map.entry("kafka-consumer-groups", "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"),
        Map.entry("kafka-delegation-tokens", "org.apache.kafka.tools.DelegationTokenCommand"),
        Map.entry("kafka-features", "org.apache.kafka.tools.FeatureCommand"),
        Map.entry("kafka-get-offsets", "org.apache.kafka.tools.GetOffsetShell"),
        Map.entry("kafka-groups", "org.apache.kafka.tools.GroupsCommand"),
        Map.entry("kafka-leader-election", "org.apache.kafka.tools.LeaderElectionCommand"),
        Map.entry("kafka-metadata-quorum", "org.apache.kafka.tools.MetadataQuorumCommand"),
        Map.entry("kafka-reassign-partitions", "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"),
        Map.entry("kafka-replica-verification", "org.apache.kafka.tools.ReplicaVerificationTool"),
        Map.entry("kafka-share-groups", "org.apache.kafka.tools.consumer.group.ShareGroupCommand"),
        Map.entry("kafka-streams-groups", "org.apache.kafka.tools.streams.StreamsGroupCommand"),
        Map.entry("kafka-topics", "org.apache.kafka.tools.TopicCommand"),
        Map.entry("kafka-transactions", "org.apache.kafka.tools.TransactionsCommand"));
    private static final Pattern WORD = Pattern.compile("'([^']*)'|(\\S+)");

    /** Thrown where a tool would end the JVM. */
    private static final class Exited extends Error {
        private Exited() {
            super(null, null, false, false);
        }
    }

    /** Sends what a thread prints to the step that started the thread. */
    private static final class Router extends OutputStream {
        private static final InheritableThreadLocal<ByteArrayOutputStream> OUT = new InheritableThreadLocal<>();
        private static final InheritableThreadLocal<ByteArrayOutputStream> ERR = new InheritableThreadLocal<>();
        private final InheritableThreadLocal<ByteArrayOutputStream> target;

        private Router(InheritableThreadLocal<ByteArrayOutputStream> target) {
            this.target = target;
        }

        @Override
        public void write(int value) {
            if (target.get() != null) target.get().write(value);
        }
    }

    private static final ThreadLocal<Integer> EXIT_STATUS = new ThreadLocal<>();
    private static final PrintStream REAL_OUT = System.out;
    private static final List<Runnable> SHUTDOWN_HOOKS = new ArrayList<>();
    private static final List<Runnable> BACKGROUND_SHUTDOWN_HOOKS = new ArrayList<>();
    private static String bootstrap;
    private static Thread background;
    private static Step backgroundStep;

    private record Step(String line, StringBuilder input, ByteArrayOutputStream out, ByteArrayOutputStream err) {
        private Step(String line) {
            this(line, new StringBuilder(), new ByteArrayOutputStream(), new ByteArrayOutputStream());
        }

        private void print(int status) {
            REAL_OUT.println("$ " + line);
            out.toString(StandardCharsets.UTF_8).lines().forEach(text -> REAL_OUT.println("  " + text));
            err.toString(StandardCharsets.UTF_8).lines()
                .filter(text -> !text.startsWith("SLF4J") && !text.startsWith("\tat ") && !text.startsWith("\t... "))
                .forEach(text -> REAL_OUT.println("! " + text));
            REAL_OUT.println("= " + status);
        }
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[1];
        System.setOut(new PrintStream(new Router(Router.OUT), true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(new Router(Router.ERR), true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((status, message) -> exit(status));
        Exit.setHaltProcedure((status, message) -> exit(status));
        Exit.setShutdownHookAdder((name, runnable) ->
            (Thread.currentThread() == background ? BACKGROUND_SHUTDOWN_HOOKS : SHUTDOWN_HOOKS).add(runnable));
        List<Step> steps = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            if (line.startsWith("< ")) steps.get(steps.size() - 1).input().append(line.substring(2)).append('\n');
            else if (!line.isBlank() && !line.startsWith("#")) steps.add(new Step(line));
        }
        for (Step step : steps) perform(step);
        REAL_OUT.flush();
        Runtime.getRuntime().halt(0);
    }

    /** The first call counts: some tools catch what is thrown here, and would go on to print and exit once more. */
    private static void exit(int status) {
        if (EXIT_STATUS.get() == null) EXIT_STATUS.set(status);
        Router.OUT.remove();
        Router.ERR.remove();
        throw new Exited();
    }

    private static void perform(Step step) throws Exception {
        if (step.line().startsWith("in background: ")) {
            backgroundStep = step;
            background = new Thread(() -> call(step, step.line().substring("in background: ".length())));
            background.start();
        } else if (step.line().startsWith("wait for a member of ")) {
            waitForMember(step.line().substring("wait for a member of ".length()));
        } else if (step.line().startsWith("wait for lines in the background: ")) {
            waitForLines(Integer.parseInt(step.line().substring("wait for lines in the background: ".length())));
        } else if (step.line().equals("wait for reassignments")) {
            waitForReassignments();
        } else if (step.line().equals("stop the background")) {
            // As Ctrl+C would. An interrupted consumer doesn't always leave its group.
            for (Runnable hook : BACKGROUND_SHUTDOWN_HOOKS) hook.run();
            background.join();
            backgroundStep.print(0);
        } else {
            int status = call(step, step.line());
            for (Runnable hook : SHUTDOWN_HOOKS) hook.run();
            SHUTDOWN_HOOKS.clear();
            step.print(status);
        }
    }

    private static int call(Step step, String line) {
        List<String> words = new ArrayList<>();
        Matcher matcher = WORD.matcher(line);
        while (matcher.find()) words.add(matcher.group(1) != null ? matcher.group(1) : matcher.group(2));
        String tool = words.remove(0);
        // kafka-cluster takes it behind its verb only; behind the verb of kafka-features it would be no option.
        String option = tool.equals("kafka-replica-verification") ? "--broker-list" : "--bootstrap-server";
        words.addAll(tool.equals("kafka-cluster") ? 1 : 0, List.of(option, bootstrap));
        Router.OUT.set(step.out());
        Router.ERR.set(step.err());
        InputStream input = System.in;
        System.setIn(new ByteArrayInputStream(step.input().toString().getBytes(StandardCharsets.UTF_8)));
        EXIT_STATUS.remove();
        try {
            Method main = Class.forName(MAIN_CLASSES.get(tool)).getMethod("main", String[].class);
            main.invoke(null, (Object) words.toArray(new String[0]));
            return 0;
        } catch (InvocationTargetException thrown) {
            if (EXIT_STATUS.get() != null) return EXIT_STATUS.get();
            System.err.println(thrown.getCause());
            return -1;
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(line, error);
        } finally {
            System.setIn(input);
            Router.OUT.remove();
            Router.ERR.remove();
        }
    }

    private static void waitForMember(String group) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            for (int tries = 0; tries < 300; tries++) {
                ConsumerGroupDescription description =
                    admin.describeConsumerGroups(List.of(group)).describedGroups().get(group).get();
                if (description.groupState() == GroupState.STABLE && !description.members().isEmpty()) return;
                Thread.sleep(100);
            }
        }
        throw new IllegalStateException("no member of " + group + " within 30 seconds");
    }

    private static void waitForReassignments() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            for (int tries = 0; tries < 300; tries++) {
                if (admin.listPartitionReassignments().reassignments().get().isEmpty()) return;
                Thread.sleep(100);
            }
        }
        throw new IllegalStateException("a reassignment is still in progress after 30 seconds");
    }

    private static void waitForLines(int count) throws Exception {
        for (int tries = 0; tries < 300; tries++) {
            if (backgroundStep.out().toString(StandardCharsets.UTF_8).lines().count() >= count) return;
            Thread.sleep(100);
        }
        throw new IllegalStateException("less than " + count + " lines from the background within 30 seconds");
    }
}
